"""Progress: as lines, for a pipe or a log of CI, and on a terminal, which redraws what runs."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import fold
from gpuprov.core.printable import continued, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

QUICK_S = 1.0  # a phase that ends sooner, and well, is not worth a line
PROGRESS_S = 15.0  # of silence, after which a phase says how far it is
REDRAW_S = 0.2
UP_AND_CLEAR = "\x1b[{lines}A\r\x1b[J"
GREEN, RED, YELLOW, DIM, PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"


class Plain:
    """Writes a line where a phase takes more than a moment, ends, or takes long, and for each note and warning.

    Args:
        stream: Where to.
        quiet: Only warnings.
        verbose: Also quick phases, and each step of each node.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False, verbose: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet
        self._verbose = verbose
        self._lock = threading.Lock()
        self._step = ""  # the last one, which is not shown by itself
        self._written = 0  # lines

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Say that it goes on, how far it is where nothing else is said for long, and how it ended."""
        started = time.monotonic()
        self._step = ""
        if self._verbose:
            self._say(f"{name} ...")
        ended = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(name, started, ended), daemon=True)
        ticker.start()
        end = "failed"
        try:
            yield
            end = "done"
        except KeyboardInterrupt:
            end = "interrupted"
            raise
        finally:
            ended.set()
            ticker.join()
            seconds = time.monotonic() - started
            if self._verbose or end != "done" or seconds >= QUICK_S:
                self._say(f"{name} {end} ({seconds:.1f} s)")

    def node(self, name: str, state: str) -> None:
        """Say it when verbose; else where the phase takes long."""
        self._step = excerpt(f"{name}: {state}")
        if self._verbose:
            self._say(continued(f"  {name}: {state}"))

    def note(self, text: str) -> None:
        """Say it unless quiet."""
        self._say(continued(f"  {text}"))

    def warn(self, text: str) -> None:
        """Say it in any case."""
        self._write(f"warning: {continued(text)}\n")

    def _tick(self, name: str, started: float, ended: threading.Event) -> None:
        if not self._verbose:
            if ended.wait(QUICK_S):
                return
            self._say(f"{name} ...")
        written = self._written
        while not ended.wait(PROGRESS_S):
            if written == self._written:
                step = f" {self._step}" if self._step else ""
                self._say(f"{name} ... {time.monotonic() - started:.0f} s{step}")
            written = self._written

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._write(f"{line}\n")

    def _write(self, text: str) -> None:
        with self._lock, suppress(OSError, ValueError):  # nobody listens any more: the work goes on, an undo above all
            self._stream.write(printable(text))
            self._stream.flush()
            self._written += 1


def can_show(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether a stream is a terminal that takes colours and cursor movement."""
    return stream.isatty() and environment.get("TERM", "dumb") != "dumb" and not environment.get("NO_COLOR")


@dataclass
class RunningPhase:
    """A phase that has begun, and how far its nodes are."""

    name: str
    started_s: float
    nodes: dict[str, str] = field(default_factory=dict)


def render_running(phases: list[RunningPhase], *, now_s: float, columns: int) -> list[str]:
    """The lines for the running phases: each with its time, then its nodes folded by state."""
    lines: list[str] = []
    for phase in phases:
        lines.append(f"{phase.name} ... {now_s - phase.started_s:.1f} s")
        states: dict[str, list[str]] = {}
        for node, state in phase.nodes.items():
            states.setdefault(state, []).append(node)
        lines += [f"  {fold(nodes)}  {state}" for state, nodes in states.items()]
    return [line if len(line) < columns else f"{line[: columns - 4]}..." for line in lines]


class Live:
    """Redraws a few lines at the bottom of a terminal five times a second while a phase runs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._running: list[RunningPhase] = []
        self._drawn = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Show it running, then leave one line that says how it ended, unless it went well in a moment."""
        phase = RunningPhase(name=name, started_s=time.monotonic())
        ended = threading.Event()
        with self._lock:
            self._running.append(phase)
            self._redraw()
        ticker = threading.Thread(target=self._tick, args=(ended,), daemon=True)
        ticker.start()
        end, colour = "failed", RED
        try:
            yield
            end, colour = "done", GREEN
        except KeyboardInterrupt:
            end = "interrupted"
            raise
        finally:
            ended.set()
            ticker.join()
            with self._lock:
                self._running.remove(phase)
                seconds = time.monotonic() - phase.started_s
                is_told = end != "done" or seconds >= QUICK_S
                left = [f"{name} {colour}{end}{PLAIN} {DIM}{seconds:.1f} s{PLAIN}"] if is_told else []
                self._redraw(*left)

    def node(self, name: str, state: str) -> None:
        """Show the node's new state below its phase."""
        with self._lock:
            if self._running:
                self._running[-1].nodes[name] = printable(state, lines=False)
                self._redraw()

    def note(self, text: str) -> None:
        """Leave a line above the running phases."""
        with self._lock:
            self._redraw(continued(f"  {printable(text)}"))

    def warn(self, text: str) -> None:
        """Leave a line that is seen."""
        with self._lock:
            self._redraw(f"{YELLOW}warning:{PLAIN} {continued(printable(text))}")

    def _tick(self, ended: threading.Event) -> None:
        while not ended.wait(REDRAW_S):
            with self._lock:
                self._redraw()

    def _redraw(self, *permanent: str) -> None:
        columns = shutil.get_terminal_size().columns
        lines = render_running(self._running, now_s=time.monotonic(), columns=columns)
        erase = UP_AND_CLEAR.format(lines=self._drawn) if self._drawn else ""
        with suppress(OSError, ValueError):  # the terminal is gone: the work goes on, an undo above all
            self._stream.write(erase + "".join(f"{line}\n" for line in (*permanent, *lines)))
            self._stream.flush()
        self._drawn = len(lines)
