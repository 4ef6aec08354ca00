"""A machine as ssh reaches it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt

NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
NAME_RULE: Final = "1 to 63 of a-z, 0-9 and -; does not begin or end with -"
PORT_MAX: Final = 65535
# What ssh takes for a word of its own, and nothing that it or a shell takes for something else
_WORD: Final = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.:@%,\[\]-]{0,254}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class RemoteMachine:
    """A host and the way to it; what is empty or None is left to ssh and its configuration.

    Attributes:
        name: By which users, nodes and documents name it.
        address: A name, an address, or an alias of ~/.ssh/config.
        user: Who logs in.
        port: Of its sshd.
        identity_file: Path of a private key.
        proxy_jump: Jump host.
    """

    name: str
    address: str
    user: str = ""
    port: int | None = None
    identity_file: str = ""
    proxy_jump: str = ""

    @property
    def destination(self) -> str:
        """As ssh takes it: `root@192.0.2.11`."""
        return f"{self.user}@{self.address}" if self.user else self.address

    def problems(self) -> list[str]:
        """What of it cannot be, in words."""
        found = []
        if not NAME.fullmatch(self.name):
            found.append(f"name {excerpt(self.name)!r}: allowed: {NAME_RULE}")
        words = {"address": self.address, "user": self.user, "proxy jump": self.proxy_jump}
        for what, word in words.items():
            if not _WORD.fullmatch(word) and (word or what == "address"):
                found.append(f"{what} {excerpt(word)!r}: ssh cannot take it")
        if self.port is not None and not 0 < self.port <= PORT_MAX:
            found.append(f"port {self.port}: allowed: 1 to {PORT_MAX}")
        if self.identity_file.startswith("-") or not self.identity_file.isprintable():
            found.append(f"identity file {excerpt(self.identity_file)!r}: not a path")
        return found


def check_machine(machine: RemoteMachine) -> RemoteMachine:
    """Return the machine if ssh can take all of it.

    Raises:
        UsageError: It cannot; every problem is named.
    """
    problems = machine.problems()
    if problems:
        raise UsageError(
            f"{excerpt(machine.name)!r} is not a valid host",
            evidence="\n".join(problems),
            fix="gpuprov host add --help",
        )
    return machine
