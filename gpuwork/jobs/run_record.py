"""How the tries of a run are counted, and how its last one ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from gpuprov.shapes.choices import JobState
    from gpuprov.shapes.job_run import JobRun
    from gpuwork.where import Where

LOST_TRIES: Final = 3


@dataclass(frozen=True, kw_only=True)
class TryEnd:
    """How a try ended.

    Attributes:
        kind: `lost` if it was killed; `waiting` if it was stopped from outside and may be begun again.
        exit_status: Of the command; None if it was ended.
        reason: Why it is not done.
        is_final: Whether another try would fail in the same way.
    """

    kind: JobState
    exit_status: int | None = None
    reason: str | None = None
    is_final: bool = False


def begin_try(record: JobRun, where: Where, *, at: str) -> JobRun:
    """A run whose next try begins."""
    return changed(
        record,
        state="running",
        tries=record.tries + 1,
        node=where.node,
        gpus=where.gpus,
        simulated=where.simulated,
        image=where.image,
        started=at,
        ended=None,
        exit_status=None,
        reason=None,
    )


def end_try(record: JobRun, end: TryEnd, *, retries: int, at: str) -> JobRun:
    """A run whose try ended: as its last one, or `waiting` for the next.

    A try that failed counts against the retries. One that was killed says nothing of the run, so there are
    `LOST_TRIES` more of them. After one that is final there is none.
    """
    failed, lost = record.failed + (end.kind == "failed"), record.lost + (end.kind == "lost")
    state, reason = end.kind, end.reason
    if end.kind == "failed" and failed <= retries and not end.is_final:
        state = "waiting"
    if end.kind == "lost":
        is_last = lost > retries + LOST_TRIES
        state = "failed" if is_last else "waiting"
        reason = f"{lost} tries were killed; of the last one: {reason}" if is_last else reason
    return changed(record, state=state, failed=failed, lost=lost, ended=at, exit_status=end.exit_status, reason=reason)
