"""Progress as lines, for a pipe, a log of CI, or a terminal that cannot do more."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from gpuprov.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator


class Plain:
    """Writes one line for each phase that begins or ends, each note and each warning.

    Args:
        stream: Where to.
        quiet: Only warnings.
        verbose: Also each step of each node.
    """

    def __init__(self, stream: TextIO, *, quiet: bool = False, verbose: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet
        self._verbose = verbose
        self._lock = threading.Lock()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Say that it begins, and how it ended."""
        started = time.monotonic()
        self._say(f"{name} ...")
        end = "failed"
        try:
            yield
            end = "done"
        finally:
            self._say(f"{name} {end} ({time.monotonic() - started:.1f} s)")

    def node(self, name: str, state: str) -> None:
        """Say it when verbose."""
        if self._verbose:
            self._say(f"  {name}: {state}")

    def note(self, text: str) -> None:
        """Say it unless quiet."""
        self._say(f"  {text}")

    def warn(self, text: str) -> None:
        """Say it in any case."""
        self._write(f"warning: {text}\n")

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._write(f"{line}\n")

    def _write(self, text: str) -> None:
        with self._lock, suppress(OSError, ValueError):  # nobody listens any more: the work goes on, an undo above all
            self._stream.write(printable(text))
            self._stream.flush()
