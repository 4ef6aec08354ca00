"""Things that go wrong in a fake engine, at a step that a test names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

Act = Callable[[], object]


class Killed(BaseException):
    """The process ends here, as by SIGKILL: nothing of it runs any more, no clean-up either."""


@dataclass(kw_only=True)
class _Fault:
    step: str | None
    subject: str | None
    nth: int
    lasting: bool
    act: Act
    seen: int = 0

    def strikes(self, step: str, subject: str) -> bool:
        if self.step not in (None, step) or self.subject not in (None, subject):
            return False
        self.seen += 1
        return self.seen == self.nth or (self.lasting and self.seen > self.nth)


class Faults:
    """What a fake engine passes at every step; records them, and acts where it was told to.

    Steps are the names of the driver's methods, before they do anything; with `:done` appended once the effect is
    there and the caller does not know yet; and, within create_node and clone_node, `:made` and `:files`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[_Fault] = []
        self.passed: list[tuple[str, str]] = []

    def at(
        self, step: str | None = None, *, subject: str | None = None, nth: int = 1, lasting: bool = False, act: Act
    ) -> None:
        """Call `act`, which may raise or block, at the nth step that matches; from then on always if `lasting`.

        Args:
            step: None for any.
            subject: Name of the node, network or image; None for any.
            nth: Counted from 1.
            lasting: As an engine that has died.
            act: What happens.
        """
        self._faults.append(_Fault(step=step, subject=subject, nth=nth, lasting=lasting, act=act))

    def raise_at(
        self,
        error: BaseException,
        step: str | None = None,
        *,
        subject: str | None = None,
        nth: int = 1,
        lasting: bool = False,
    ) -> None:
        """As `at`, raising the error."""

        def act() -> None:
            raise error

        self.at(step, subject=subject, nth=nth, lasting=lasting, act=act)

    def clear(self) -> None:
        """Let everything go well from here on, and forget what was passed."""
        with self._lock:
            self._faults.clear()
            self.passed.clear()

    def reach(self, step: str, subject: str = "") -> None:
        """Record a step, and act if one of the faults is due."""
        with self._lock:
            self.passed.append((step, subject))
            due = [fault.act for fault in self._faults if fault.strikes(step, subject)]
        for act in due:
            act()
