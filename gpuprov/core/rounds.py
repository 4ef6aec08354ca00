"""The one way to watch: look again and again, compare with the round before, and tell only what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gpuprov.core.errors import GpuprovError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gpuprov.core.waiting import Clock

Seen = TypeVar("Seen")
Change = TypeVar("Change")


def every(interval_s: float, clock: Clock) -> Iterator[None]:
    """Rounds without end, from the beginning of one to the beginning of the next; a late one begins at once."""
    while True:
        began_s = clock.now_s()
        yield
        clock.sleep(max(0.0, began_s + interval_s - clock.now_s()))


def watch_rounds(
    look: Callable[[Seen | None], Seen],
    compare: Callable[[Seen, Seen], Sequence[Change]],
    *,
    rounds: Iterable[None],
    first: Callable[[Seen], object],
    tell: Callable[[Sequence[Change]], object],
    trouble: Callable[[str], Change],
) -> None:
    """Look once in each round. What was seen last replaces what was seen before, so that nothing grows in days.

    Args:
        look: Sees how things are; is handed what was seen last, None in the first round.
        compare: Says what has changed from one sight to the next.
        rounds: Gives the rhythm; an endless one is ended by KeyboardInterrupt.
        first: Is handed what the first round saw.
        tell: Is handed the changes of a later round that has any.
        trouble: Makes a change of the reason why a round failed, or of an empty one when a round succeeds again.

    Raises:
        Exception: The first round failed. A later one that fails is told once, and once more when it is over.
    """
    seen: Seen | None = None
    before = ""
    for _ in rounds:
        reason = ""
        try:
            now = look(seen)
        except Exception as error:  # what nobody foresaw must not end a watch of days either
            if seen is None:
                raise
            now, reason = seen, _describe(error)
        if seen is None:
            first(now)
        else:
            turned = [trouble(reason)] if bool(reason) != bool(before) else []
            changes = [*turned, *compare(seen, now)]
            if changes:
                tell(changes)
        seen, before = now, reason


def _describe(error: Exception) -> str:
    if isinstance(error, GpuprovError):
        return " ".join(str(error).split())
    return f"unexpected {type(error).__name__}: {error}"
