"""How workflows report progress; the caller decides where it goes (a terminal, a pipe, a log file)."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from gpuprov.core.excerpt import shorten
from gpuprov.core.outcome import PhaseTiming

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


class Reporter(Protocol):
    """Listens to a workflow. `node`, `note` and `warn` may be called from several threads at once."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """A named, timed phase: it failed unless the block ends normally."""

    def node(self, name: str, state: str) -> None:
        """Report the progress of a node within the phase."""

    def note(self, text: str) -> None:
        """Report something worth knowing."""

    def warn(self, text: str) -> None:
        """Report something that the user should act on; never silenced by `-q`."""


class Silent:
    """Accepts everything and shows nothing."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:  # noqa: ARG002 - the protocol's signature
        """Do nothing."""
        yield

    def node(self, name: str, state: str) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def warn(self, text: str) -> None:
        """Do nothing."""


class TimingReporter:
    """Passes everything on, each warning once, and keeps the phases' durations, for the `phases` of an Outcome."""

    def __init__(self, listener: Reporter) -> None:
        self._listener = listener
        self._phases: list[PhaseTiming] = []
        self._warnings: set[str] = set()

    @property
    def phases(self) -> tuple[PhaseTiming, ...]:
        """The phases that have ended, in the order they ended."""
        return tuple(self._phases)

    @property
    def warned(self) -> bool:
        """Whether anything was warned of, such as an engine that does not respond."""
        return bool(self._warnings)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Pass on, and take the time."""
        started = time.monotonic()
        ok = False
        try:
            with self._listener.phase(name):
                yield
            ok = True
        finally:
            self._phases.append(PhaseTiming(name=name, seconds=time.monotonic() - started, ok=ok))

    def node(self, name: str, state: str) -> None:
        """Pass on."""
        self._listener.node(name, state)

    def note(self, text: str) -> None:
        """Pass on, in a sensible length."""
        self._listener.note(shorten(text))

    def warn(self, text: str) -> None:
        """Pass on, in a sensible length, what was not said before: a silent engine may be noticed by several steps."""
        if text not in self._warnings:
            self._warnings.add(text)
            self._listener.warn(shorten(text))
