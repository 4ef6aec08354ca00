"""Commands in nodes, and what comes out of them: the node may be hostile, so all of it has limits."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.drivers.base import ExecResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpuprov.drivers.base import Stream

MOST_OUTPUT_BYTES = 16_000_000  # of a command, both streams together
_SHOWN = 300
_KILLED = 137  # exit status of a command that was killed
_PIECE_BYTES = 131072
_DAY_S = 86400.0
_GRACE_S = 5.0  # for a command to end by its own limit


@dataclass(frozen=True, kw_only=True)
class Call:
    """A command to run in a node, as `Driver.run` is told it; what prints more than `most_bytes` is ended.

    Attributes:
        feed: What the command reads, in place of `stdin`: any length, made while it is read.
        take: Gets what the command prints, piece by piece; it is not kept and has no limit.
        silence_s: How long it may neither read nor print; what keeps moving may take any time.
    """

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    timeout_s: float | None = None
    stdin: bytes = b""
    most_bytes: int = MOST_OUTPUT_BYTES
    feed: Iterable[bytes] | None = None
    take: Callable[[bytes], object] | None = None
    silence_s: float | None = None

    @property
    def reads(self) -> bool:
        """Whether it is given anything to read."""
        return self.feed is not None or bool(self.stdin)

    def pieces(self) -> Iterator[bytes]:
        """What it reads."""
        if self.feed is not None:
            yield from self.feed
            return
        for start in range(0, len(self.stdin), _PIECE_BYTES):  # LXD holds each message in memory
            yield self.stdin[start : start + _PIECE_BYTES]

    @property
    def limited(self) -> list[str]:
        """The command line under coreutils' `timeout`: killed in the node, not only forgotten here."""
        if self.timeout_s is None:
            return list(self.argv)
        return ["timeout", "--signal=KILL", f"{self.timeout_s:.3f}", *self.argv]

    def judged(self, output: Output, *, node: str, elapsed_s: float) -> Output:
        """The output; raises TimedOut where it is that of a command whose time was over."""
        if self.timeout_s is None or output.exit_code != _KILLED or elapsed_s < self.timeout_s:
            return output
        raise self.overdue(output, node=node)

    def overdue(self, output: Output, *, node: str) -> TimedOut:
        """The error for a command that was ended because its time was over."""
        said = output.text()
        return TimedOut(
            f"`{self._shown}` in {node} did not finish within {self.timeout_s or 0:.0f} s",
            evidence=(said.stderr or said.stdout)[-2000:].strip() or "no output",
            fix=f"inspect the node: gpuprov shell {node}",
        )

    def too_much(self, output: Output, *, node: str) -> EngineError:
        """The error for a command that was ended because it printed more than is read."""
        said = output.text()
        return EngineError(
            f"`{self._shown}` in {node} printed more than {self.most_bytes} bytes",
            evidence=f"it begins with: {(said.stdout or said.stderr)[:200]!r}",
            fix=f"inspect the node: gpuprov shell {node}",
        )

    @property
    def _shown(self) -> str:
        line = " ".join(self.argv)
        return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."


@dataclass(frozen=True, kw_only=True)
class Output:
    """A finished command, its streams as they are."""

    exit_code: int
    stdout: bytes
    stderr: bytes

    def text(self) -> ExecResult:
        """The same as text."""
        return ExecResult(
            exit_code=self.exit_code,
            stdout=self.stdout.decode("utf-8", "replace"),
            stderr=self.stderr.decode("utf-8", "replace"),
        )


class Deadline:
    """When a command has to have ended: at a time, or so long after it last read or printed."""

    def __init__(self, call: Call) -> None:
        self._silence_s = call.silence_s
        self._end_s = time.monotonic() + (call.silence_s or (call.timeout_s or _DAY_S) + _GRACE_S)

    def moved(self) -> None:
        """It has read or printed."""
        if self._silence_s is not None:
            self._end_s = time.monotonic() + self._silence_s

    def watching(self, take: Callable[[bytes], object] | None) -> Callable[[bytes], object] | None:
        """The same function; each piece that it has taken counts as a move."""

        def watched(piece: bytes) -> None:
            if take is not None:
                take(piece)
                self.moved()

        return watched if take is not None else None

    @property
    def left_s(self) -> float:
        """The time that is left; 0 where it is over."""
        return max(0.0, self._end_s - time.monotonic())


class Intake:
    """Collects the pieces of a command's two streams; may be called from several threads.

    Args:
        most_bytes: How much.
        take: Gets what is printed instead; it is not collected and has no limit.

    Attributes:
        full: Whether there was more than may be taken.
    """

    def __init__(self, most_bytes: int, *, take: Callable[[bytes], object] | None = None) -> None:
        self.full = False
        self._left = most_bytes
        self._hand_on = take
        self._pieces: dict[Stream, list[bytes]] = {"stdout": [], "stderr": []}
        self._lock = threading.Lock()

    def take(self, stream: Stream, piece: bytes) -> bool:
        """Take a piece in; whether more may come."""
        if stream == "stdout" and self._hand_on is not None:
            self._hand_on(piece)
            return not self.full
        with self._lock:
            self._pieces[stream].append(piece[: max(0, self._left)])
            self._left -= len(piece)
            self.full = self.full or self._left < 0
            return not self.full

    def output(self, exit_code: int = -1) -> Output:
        """What was taken in so far."""
        with self._lock:
            stdout, stderr = (b"".join(self._pieces[stream]) for stream in ("stdout", "stderr"))
        return Output(exit_code=exit_code, stdout=stdout, stderr=stderr)


class Tail:
    """The end of something long: all of it is read, and the last bytes are kept."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._kept = bytearray()

    def take(self, piece: bytes) -> None:
        """Take a piece in."""
        self._kept += piece
        if len(self._kept) > 2 * self._most:
            del self._kept[: -self._most]

    def text(self) -> str:
        """The last bytes."""
        return bytes(self._kept[-self._most :]).decode("utf-8", "replace")
