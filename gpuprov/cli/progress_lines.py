"""Progress as lines, for a pipe, a log of CI, or a terminal that cannot do more."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from gpuprov.core.excerpt import excerpt
from gpuprov.core.printable import continued, printable

if TYPE_CHECKING:
    from collections.abc import Iterator


QUICK_S = 1.0  # a phase that ends sooner, and well, is not worth a line
PROGRESS_S = 15.0  # of silence, after which a phase says how far it is


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
        finally:
            ended.set()
            ticker.join()
            seconds = time.monotonic() - started
            if self._verbose or end == "failed" or seconds >= QUICK_S:
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
