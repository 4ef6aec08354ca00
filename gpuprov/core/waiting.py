"""The one way to wait: a named budget on a monotonic clock; a timeout is a failure that shows the last state seen."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from gpuprov.core.errors import TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

Seen = TypeVar("Seen")


class Clock(Protocol):
    """Time, passed in so that tests need not spend it."""

    def now_s(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    def sleep(self, seconds: float) -> None:
        """Let this much time go by."""


class SystemClock:
    """The machine's monotonic clock."""

    def now_s(self) -> float:
        """Seconds since boot."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)


@dataclass(frozen=True, kw_only=True)
class Wait:
    """How long to wait for what.

    Attributes:
        what: Completes the sentence "waited for ...", such as `node c000 to answer`.
        timeout_s: Seconds until it counts as failed.
        fix: What to type then.
        interval_s: Seconds between two looks.
        clock: Where time comes from.
    """

    what: str
    timeout_s: float
    fix: str
    interval_s: float = 0.1
    clock: Clock = field(default_factory=SystemClock)

    def until(
        self, observe: Callable[[], Seen], done: Callable[[Seen], bool], *, undone: Callable[[], int] | None = None
    ) -> Seen:
        """Observe until `done` holds for what was seen, and return that.

        There is always one look after the deadline's last sleep, so a slow machine gets a verdict on fresh facts.

        Args:
            observe: Looks.
            done: Whether that is what is waited for.
            undone: How much is still to be done; if it is less than ever before when the time is over, that begins
                anew.

        Raises:
            TimedOut: `timeout_s` went by, and nothing was done meanwhile; the evidence is the last state seen.
        """
        deadline_s = self.clock.now_s() + self.timeout_s
        least: int | None = None
        while True:
            seen = observe()
            if done(seen):
                return seen
            if undone is not None and least is None:
                least = undone()
            left_s = deadline_s - self.clock.now_s()
            if left_s <= 0 and least is not None and undone is not None and (now := undone()) < least:
                least = now
                deadline_s += self.timeout_s
            elif left_s <= 0:
                raise TimedOut(
                    f"waited {self.timeout_s:g} s for {self.what}", evidence=f"last seen: {seen}", fix=self.fix
                )
            self.clock.sleep(min(self.interval_s, max(0.0, left_s)))
