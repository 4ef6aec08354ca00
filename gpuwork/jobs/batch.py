"""What runs are handed to: Slurm, or workers that take them from a queue. The rest of `jobs` knows neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from gpuprov.shapes.faults import Fault
    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.shapes.job_run import Chunk, System
    from gpuwork.jobs.store import Submission

    Find = Callable[[Submission, int], "Queued | None"]
    Tell = Callable[[Chunk], None]


@dataclass(frozen=True, kw_only=True)
class Queued:
    """What the batch system says of a run that it has."""

    state: Literal["waiting", "running"]
    node: str | None = None
    reason: str | None = None


class Batch(Protocol):
    """A batch system. What it may raise if it does not answer is a BatchError."""

    @property
    def name(self) -> System:
        """As `submitted.json` has it."""

    def find_faults(self, order: JobOrder) -> Iterator[Fault]:
        """What it cannot do of an order."""

    def prepare(self, order: JobOrder, folder: Path) -> None:
        """Write what it needs into the new folder of a submission."""

    def begin(self, order: JobOrder, folder: Path, *, tell: Tell) -> None:
        """Hand all runs in; `tell` is told of each part that the system has, as soon as it has it."""

    def withdraw(self, chunks: Sequence[Chunk]) -> None:
        """Take back what `tell` was told of: the submission failed. What it keeps ends without an effect."""

    def look(self) -> Find:
        """Ask what it has, once for all runs; the answer finds a run in it, or None if it has the run no more."""

    def cancel(self, asked: Sequence[tuple[Submission, int | None]]) -> None:
        """End submissions, or one run of each, that are marked as cancelled."""

    def find_cancelled(self, submission: Submission, begun: Collection[int]) -> frozenset[int]:
        """The runs of a submission that somebody ended by the system's own commands, as far as it still knows.

        Args:
            submission: That has runs which it has no more.
            begun: The numbers of the runs that began.
        """

    def last_words(self, submission: Submission, number: int) -> str | None:
        """Of a run that left no end, what was said around it."""
