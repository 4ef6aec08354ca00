"""Commands in nodes, and what comes out of them: the node may be hostile, so all of it has limits."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.drivers.base import ExecResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.drivers.base import Stream

MOST_OUTPUT_BYTES = 16_000_000  # of a command, both streams together
_SHOWN = 300
_KILLED = 137  # exit status of a command that was killed


@dataclass(frozen=True, kw_only=True)
class Call:
    """A command to run in a node, as `Driver.run` is told it; what prints more than `most_bytes` is ended."""

    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    timeout_s: float | None = None
    stdin: bytes = b""
    most_bytes: int = MOST_OUTPUT_BYTES

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


class Intake:
    """Collects the pieces of a command's two streams; may be called from several threads.

    Attributes:
        full: Whether there was more than may be taken.
    """

    def __init__(self, most_bytes: int) -> None:
        self.full = False
        self._left = most_bytes
        self._pieces: dict[Stream, list[bytes]] = {"stdout": [], "stderr": []}
        self._lock = threading.Lock()

    def take(self, stream: Stream, piece: bytes) -> bool:
        """Take a piece in; whether more may come."""
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
