"""What is said while runs are made, and at their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuwork.errors import Elsewhere
from gpuwork.grid.one import LOG
from gpuwork.grid.store import read_values
from gpuwork.grid.values import label

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuwork.grid.one import Ended
    from gpuwork.grid.submit import SubmittedRuns


class Progress:
    """Counts runs as they end, and says a line about each."""

    def __init__(self, submission: SubmittedRuns | None, *, say: Callable[[str], None]) -> None:
        self._submission = submission
        self._say = say
        self._simulated = False
        self._done = self._before = self._elsewhere = self.failed = 0

    def tell(self, outcome: Ended | Elsewhere) -> None:
        """A run has ended, or is running elsewhere."""
        assert self._submission is not None  # noqa: S101  (else there are no runs)
        total = len(self._submission.told.runs)
        if isinstance(outcome, Elsewhere):
            self._elsewhere += 1
            self._say(f"{self._count}/{total} {outcome.what}")
            return
        if outcome.before:
            self._before += 1
            self._say(f"{self._count}/{total} {outcome.name} has been run elsewhere")
            return
        self.failed += outcome.exit_status != 0
        self._done += outcome.exit_status == 0
        self._simulated |= outcome.simulated
        run = self._submission.store / outcome.name
        values = read_values(run.parent)
        about = label(values, tuple(name for name in self._submission.told.varied if name in values))
        mark = " SIMULATED" if outcome.simulated else ""
        end = f"failed{mark}: {outcome.reason}" if outcome.exit_status else f"done{mark} in {outcome.seconds:.1f} s"
        self._say(" ".join(filter(None, (f"{self._count}/{total}", outcome.name, about, end))))
        if outcome.exit_status:
            self._say(f"  next: cat {run / LOG}")

    @property
    def summary(self) -> str:
        """All of them in a line."""
        elsewhere = {"run elsewhere": self._before, "running elsewhere": self._elsewhere}
        counts = {"done": self._done, "failed": self.failed, **elsewhere}
        words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        simulated = " (SIMULATED)" if self._simulated else ""
        return f"{self._count} run{'' if self._count == 1 else 's'}{': ' if words else ''}{words}{simulated}"

    @property
    def _count(self) -> int:
        return self._done + self.failed + self._before + self._elsewhere
