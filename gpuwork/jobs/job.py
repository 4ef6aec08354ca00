"""The model of a job: one run of what was handed in, as people and programs see it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from gpuwork.jobs.submitter import Submitter

JobState = Literal["waiting", "running", "done", "failed", "cancelled", "lost"]
ENDED: Final[frozenset[JobState]] = frozenset({"done", "failed", "cancelled", "lost"})
LIVE: Final[frozenset[JobState]] = frozenset({"waiting", "running"})


@dataclass(frozen=True, kw_only=True)
class JobRun:
    """One run.

    Attributes:
        id: Of the submission, such as `7`; run 3 of a submission with a count is `7.3`.
        name: As the user called it.
        state: `lost` if the queue no longer has it and it left no end.
        tries: How often it was begun.
        node: Where it runs, or ran last.
        gpus: UUIDs of the GPUs that it sees.
        simulated: Whether these are simulated.
        exit_status: Of the command, 128 + N for signal N; None if it has not ended, or was ended from outside.
        submitter: Who handed it in; None where that is not known.
        submitted: When it was handed in; as all times in UTC, such as `2026-11-22T16:40:12Z`.
        started: When its last try began.
        ended: When it ended.
        log: What it printed.
        reason: Why it waits, failed or is lost.
    """

    id: str
    name: str
    state: JobState
    tries: int = 0
    node: str | None = None
    gpus: tuple[str, ...] = ()
    simulated: bool = False
    exit_status: int | None = None
    submitter: Submitter | None = None
    submitted: str
    started: str | None = None
    ended: str | None = None
    log: str
    reason: str | None = None


def as_row(job: JobRun) -> dict[str, Any]:
    """A job in a document."""
    return {**asdict(job), "gpus": list(job.gpus)}
