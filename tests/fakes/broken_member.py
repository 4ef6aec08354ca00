"""Hosts whose member ends, or whose connection breaks, in the middle of a request; the controller lives on."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gpuprov import __version__
from gpuprov.link.lines import PROTOCOL, render_line
from gpuprov.link.ssh_failure import SSH_FAILED, explain_ssh
from gpuprov.shapes.lines import Hello, NodeSaid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpuprov.core.errors import Unreachable
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.places import Places

PATIENCE_S: Final = 0.02
_CLOSED: Final = "client_loop: send disconnect: Broken pipe"
HELLO: Final = render_line(Hello(protocol=PROTOCOL, version=__version__, host="there"))
PROGRESS: Final = render_line(NodeSaid(name="c000", state="starting"))


@dataclass(frozen=True, kw_only=True)
class Break:
    """How a connection ends.

    Attributes:
        dies: Whether the member is killed. Otherwise it hears that nobody listens, undoes what it has begun, and its
            host stays away until the next run.
        last: How many of ten parts of its last line still come.
        newline: Whether a newline follows what still comes of it.
        silent: Whether nothing more is heard, not even that the connection is closed.
    """

    dies: bool = False
    last: int = 5
    newline: bool = False
    silent: bool = False

    def cut(self, line: bytes) -> bytes:
        """What comes of a line."""
        return line[: len(line) * self.last // 10] + (b"\n" if self.newline else b"")


BREAKS: Final = {
    "the member is killed in the middle of a line": Break(dies=True),
    "the connection is closed between two lines": Break(last=0),
    "half a line, then silence": Break(silent=True),
    "half a line with an end": Break(newline=True),
}


@dataclass(kw_only=True)
class BrokenExchange:
    """The streams of a command over ssh."""

    pieces: list[bytes]
    silent: bool
    pending: int = 0
    stderr: str = ""
    sent: list[bytes] = field(default_factory=list)

    def turn(self, wait_s: float) -> bytes | None:
        if self.pieces:
            return self.pieces.pop(0)
        if not self.silent:
            self.stderr = _CLOSED
            return None
        time.sleep(min(wait_s, PATIENCE_S))
        return b""

    def send(self, piece: bytes) -> None:
        self.sent.append(piece)

    def forget_stderr(self) -> None:
        """Nothing was said yet."""

    def end_input(self) -> None:
        """Nobody hears it."""

    def status(self, _wait_s: float) -> int | None:
        return SSH_FAILED


@dataclass(frozen=True, kw_only=True)
class BrokenConnection:
    """Stands for the SshConnection to a host.

    Attributes:
        said: What the member said before the break, in lines.
        line: Its last line, of which a part comes.
        ends: How it breaks.
    """

    machine: RemoteMachine
    places: Places
    said: bytes
    line: bytes
    ends: Break
    answer_s: float = PATIENCE_S

    @contextmanager
    def exchange(self, _command: Sequence[str]) -> Iterator[BrokenExchange]:
        pieces = [self.said, self.ends.cut(self.line)]
        yield BrokenExchange(pieces=[piece for piece in pieces if piece], silent=self.ends.silent)

    def failure(self, stderr: str) -> Unreachable:
        return explain_ssh(self.machine, stderr)
