"""How long a command of the host may take: in all, or without any sign that it works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpuprov.core.activity import Activity

_LOOK_S: Final = 5.0
# Whoever waits for an answer wakes up now and then: less than this, in all of the time of silence, is no work.
_WORK: Final = Activity(ticks=20, moved_bytes=256 * 1024)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of one command; None for no such limit."""

    total_s: float | None = None
    silence_s: float | None = None


class Watch:
    """Sees whether a command goes on: it says something, or it and its children move bytes or use the CPU."""

    def __init__(self, limits: Limits, *, now_s: float) -> None:
        self._limits = limits
        self._began_s = self._moved_s = now_s
        self._written, self._activity = 0, Activity()

    @property
    def look_s(self) -> float | None:
        """After how long to judge it again."""
        total_s, silence_s = self._limits.total_s, self._limits.silence_s
        if silence_s is None:
            return total_s
        shorter_s = min(_LOOK_S, silence_s / 4)
        return shorter_s if total_s is None else min(shorter_s, total_s)

    def judge(self, *, now_s: float, written: int, activity: Activity) -> str:
        """Which limit it is over, in words; empty where it may go on.

        Args:
            now_s: On a monotonic clock.
            written: How much it has said so far.
            activity: What it has done so far.
        """
        if written != self._written or _is_work(self._activity, activity):
            self._moved_s, self._written, self._activity = now_s, written, activity
        total_s, silence_s = self._limits.total_s, self._limits.silence_s
        if total_s is not None and now_s - self._began_s >= total_s:
            return f"did not finish within {total_s:g} s"
        if silence_s is not None and now_s - self._moved_s >= silence_s:
            ran_s = now_s - self._began_s
            return f"did nothing for {silence_s:g} s, after it had worked for {max(0.0, ran_s - silence_s):.0f} s"
        return ""


def _is_work(before: Activity, now: Activity) -> bool:
    """What is less than before is that of a child that has ended."""
    ticks, moved_bytes = now.ticks - before.ticks, now.moved_bytes - before.moved_bytes
    return min(ticks, moved_bytes) < 0 or ticks >= _WORK.ticks or moved_bytes >= _WORK.moved_bytes
