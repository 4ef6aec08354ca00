"""The way Ansible's connection plugin takes into a node of another host: through the gpuprov there."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.reporter import Silent
from gpuprov.host.remote.answers import read_answer, strictly
from gpuprov.host.remote.ask import MemberRequest
from gpuprov.host.remote.hosts import Hosts, HostsBySsh
from gpuprov.host.remote.inventory import get_machine
from gpuprov.host.remote.members import MemberProcesses
from gpuprov.host.remote.places import ensure_places
from gpuprov.host.remote.several import told_by
from gpuprov.shapes.members import Ran
from gpuprov.shapes.orders import RunOrder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.provision.transport import Transport

_PIECE: Final = 2_000_000  # bytes of a file at once: a request has 4 MiB at most, and base64 takes a third more
MOST_FETCHED_BYTES: Final = 256_000_000
_READ: Final = 'test -f "$1" && : < "$1" && tail -c "+$2" -- "$1" | head -c "$3" | base64 -w 0'


@dataclass(frozen=True, kw_only=True)
class RemoteTransport:
    """Runs commands and moves files by the gpuprov of a host; a file goes in pieces, by commands in the node.

    Attributes:
        hosts: The way to it.
    """

    machine: RemoteMachine
    engine: str
    hosts: Hosts

    def run(self, node: str, argv: list[str], environment: Mapping[str, str], stdin: bytes) -> tuple[int, bytes, bytes]:
        """Run a command as root in a running node.

        Raises:
            GpuprovError: The host or the node refuses, or does not answer.
        """
        order = RunOrder(
            node=node,
            engine=self.engine,
            argv=tuple(argv),
            environment=environment,
            stdin=stdin,
        )
        (answer,) = self.hosts.work({self.machine: MemberRequest(order=order)})
        ran = read_answer(Ran, told_by(answer), self.machine.name)
        return ran.exit_code, ran.stdout, ran.stderr

    def look(self, node: str, argv: list[str]) -> str:
        """What a short command prints that changes nothing."""
        return self.run(node, argv, {}, b"")[1].decode(errors="replace")

    def put(self, node: str, path: str, content: bytes) -> None:
        """Write a file that only root of the node may read; it appears under its name once it is whole."""
        part = f"{path}.gpuprov"
        self._must(node, ["sh", "-c", 'umask 077; rm -f -- "$1"; : > "$1"', "sh", part], path)
        for at in range(0, len(content), _PIECE):
            piece = content[at : at + _PIECE]
            self._must(node, ["sh", "-c", 'cat >> "$1"', "sh", part], path, stdin=piece)
        self._must(node, ["mv", "-f", "--", part, path], path)

    def get(self, node: str, path: str) -> bytes:
        """Read a file of the node.

        Raises:
            EngineError: It has more than MOST_FETCHED_BYTES.
        """
        content = bytearray()
        while len(content) <= MOST_FETCHED_BYTES:
            argv = ["sh", "-c", _READ, "sh", path, str(len(content) + 1), str(_PIECE)]
            said = self._must(node, argv, path)
            piece = strictly(partial(base64.b64decode, said, validate=True), self.machine.name)
            content += piece
            if len(piece) < _PIECE:
                return bytes(content)
        raise EngineError(
            f"the file {path} of {node} is too large",
            evidence=f"it has more than {MOST_FETCHED_BYTES} bytes",
            fix=f"on {self.machine.name}: gpuprov cp {node}:{path} FOLDER",
        )

    def close(self) -> None:
        """End the gpuprov of the host."""
        self.hosts.close()

    def _must(self, node: str, argv: list[str], path: str, *, stdin: bytes = b"") -> bytes:
        status, stdout, stderr = self.run(node, argv, {}, stdin)
        if status:
            raise EngineError(
                f"cannot move the file {path} of {node} on {self.machine.name}",
                evidence=stderr.decode(errors="replace")[:2000] or f"exit status {status}",
                fix=f"gpuprov exec {node} -- ls -ld {path}",
            )
        return stdout


def open_remote_transport(host: str, engine: str) -> Transport:
    """For nodes of a host that `host add` has remembered.

    Raises:
        UsageError: There is no such host.
    """
    if not host:
        raise UsageError("no host is named", evidence="gpuprov_through is empty", fix="gpuprov inventory --graph")
    places = ensure_places()
    machine = get_machine(places.inventory, host)
    return RemoteTransport(
        machine=machine, engine=engine, hosts=HostsBySsh(members=MemberProcesses(places), reporter=Silent())
    )
