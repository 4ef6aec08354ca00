"""One connection of OpenSSH to a host, which everything that this user's gpuprov does there shares.

The first command opens it and leaves it to a master process of ssh. That ends by itself KEEP_S after the last command,
also where gpuprov was killed, and takes its socket along.
"""

from __future__ import annotations

import shlex
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError
from gpuprov.core.execution import piped, run, run_attached
from gpuprov.core.own_folders import home_folder
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.link.exchange import Exchange
from gpuprov.link.ssh_failure import explain_ssh

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuprov.core.errors import Unreachable
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.places import Places

ANSWER_S: Final = 10.0  # for a host to let in and begin to speak
KEEP_S: Final = 60
_ALIVE_S: Final = 5
_ALIVE_TIMES: Final = 3
_TIDY_S: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class SshConnection:
    """The way to a host.

    Attributes:
        takes_new_key: Whether a host key is accepted that nobody has seen before; one that has changed never is.
    """

    machine: RemoteMachine
    places: Places
    takes_new_key: bool = False

    @property
    def answer_s(self) -> float:
        """How long the host has to let in and begin to speak; longer where the user grants more."""
        return scaled_limit_s(ANSWER_S)

    def argv(self, command: Sequence[str], *, terminal: bool = False) -> list[str]:
        """The command of ssh that runs a command there, with or without a terminal."""
        return [
            "ssh",
            *self._options(),
            "-tt" if terminal else "-T",
            "--",
            self.machine.destination,
            shlex.join(command),
        ]

    @contextmanager
    def exchange(self, command: Sequence[str]) -> Iterator[Exchange]:
        """A command there, whose streams are the block's; it is ended with the block."""
        with piped(self.argv(command), with_stderr=True) as running:
            yield Exchange(running)

    def attach(self, command: Sequence[str], *, terminal: bool) -> int:
        """Run a command there with this process's own streams; returns its exit status."""
        return run_attached(self.argv(command, terminal=terminal))

    def failure(self, stderr: str) -> Unreachable:
        """Why ssh did not come through, by what it said."""
        return explain_ssh(self.machine, stderr, known=self.known_fingerprint())

    def known_fingerprint(self) -> str:
        """Of the host key that `host add` has accepted, or that this user's ssh knows; empty where there is none."""
        known_as = self._known_as()
        for file in (self.places.known_hosts, home_folder() / ".ssh/known_hosts"):
            argv = ["ssh-keygen", "-l", "-F", known_as, "-f", str(file)]
            with suppress(GpuprovError):
                said = run(argv, timeout_s=_TIDY_S, check=False).stdout
                found = [line.split() for line in said.splitlines() if line and not line.startswith("#")]
                if found:
                    return ", ".join(f"{words[-1]} ({words[1]})" for words in found if len(words) > 2)  # noqa: PLR2004
        return ""

    def close(self) -> None:
        """End the connection, if there is one."""
        with suppress(GpuprovError):
            run(["ssh", *self._options(), "-O", "exit", "--", self.machine.destination], timeout_s=_TIDY_S, check=False)

    def forget_key(self) -> None:
        """Forget the host key that `host add` has accepted."""
        file = self.places.known_hosts
        if file.exists():
            run(["ssh-keygen", "-R", self._known_as(), "-f", str(file)], timeout_s=_TIDY_S, check=False)
            file.with_name(f"{file.name}.old").unlink(missing_ok=True)

    def _known_as(self) -> str:
        """How known_hosts names it: what an alias stands for only ssh knows."""
        address, port = self.machine.address, str(self.machine.port or 22)
        with suppress(GpuprovError):
            argv = ["ssh", *self._options(), "-G", "--", self.machine.destination]
            said = dict(line.split(" ", 1) for line in run(argv, timeout_s=_TIDY_S).stdout.splitlines() if " " in line)
            address, port = said.get("hostname", address), said.get("port", port)
        return address if port == "22" else f"[{address}]:{port}"

    def _options(self) -> list[str]:
        machine, places = self.machine, self.places
        known = f'"{places.known_hosts}" ~/.ssh/known_hosts ~/.ssh/known_hosts2'
        options = [
            "BatchMode=yes",
            f"ConnectTimeout={max(1, round(self.answer_s))}",
            f"ServerAliveInterval={_ALIVE_S}",
            f"ServerAliveCountMax={_ALIVE_TIMES}",
            f"StrictHostKeyChecking={'accept-new' if self.takes_new_key else 'yes'}",
            f"UserKnownHostsFile={known}",
            "ControlMaster=auto",
            f"ControlPersist={KEEP_S}",
            f'ControlPath="{str(places.socket(machine)).replace("%", "%%")}"',
            "ClearAllForwardings=yes",
            "ForwardAgent=no",
            "ForwardX11=no",
            "RemoteCommand=none",
            "EscapeChar=none",
        ]
        if machine.identity_file:
            options += [f'IdentityFile="{machine.identity_file}"', "IdentitiesOnly=yes"]
        if machine.proxy_jump:
            options.append(f"ProxyJump={machine.proxy_jump}")
        port = ["-p", str(machine.port)] if machine.port else []
        return [*(part for option in options for part in ("-o", option)), *port]
