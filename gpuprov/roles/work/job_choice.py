"""Which jobs of a cluster somebody wants to see: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from gpuprov.shapes.jobs import Jobs


@dataclass(frozen=True, kw_only=True)
class JobChoice:
    """What is chosen.

    Attributes:
        states: Any of these; all where it is empty.
        last: The newest submissions of those that are left, so many; all where None.
    """

    states: frozenset[str] = frozenset()
    last: int | None = None

    def of(self, listed: Jobs) -> Jobs:
        """The chosen ones, in their order."""
        jobs = [job for job in listed.jobs if not self.states or job.state in self.states]
        if self.last is not None:
            newest = set(sorted({job.submission for job in jobs}, key=int)[-self.last :])
            jobs = [job for job in jobs if job.submission in newest]
        return changed(listed, jobs=tuple(jobs))
