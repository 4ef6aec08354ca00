"""What the program `gpuwork.jobs` in a node answers: root in the node can say anything in its place.

Texts that a job can have written are shortened and made printable here, so that one job cannot hide the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.excerpt import excerpt
from gpuprov.shapes.base import changed, read
from gpuprov.shapes.jobs import Job, JobLog, Jobs, JobsShown, JobSubmitted
from gpuprov.shapes.limits import MOST_GPUS, PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHARACTER: Final = 3  # bytes of one that is not there in full
_REASON: Final = 300
_NAME: Final = 255


def read_submitted(told: Mapping[str, Any], count: int | None) -> JobSubmitted:
    """What was submitted, in as many runs as were asked for; raises ValueError for anything else."""
    submitted = read(JobSubmitted, told)
    number = submitted.id
    if submitted.jobs != ((number,) if count is None else tuple(f"{number}.{run}" for run in range(count))):
        raise ValueError("its jobs are not those that were ordered")
    return submitted


def read_jobs(told: Mapping[str, Any]) -> Jobs:
    """Jobs; raises ValueError for anything else."""
    jobs = read(Jobs, told)
    return changed(jobs, jobs=tuple(map(_printable, jobs.jobs)))


def read_shown(told: Mapping[str, Any]) -> JobsShown:
    """Jobs and their submissions; raises ValueError for anything else."""
    shown = read(JobsShown, told)
    return changed(shown, jobs=tuple(map(_printable, shown.jobs)))


def read_log_piece(told: Mapping[str, Any], *, job: str, start: int) -> JobLog:
    """Part of the log of a job; raises ValueError for anything else, or for another part."""
    piece = read(JobLog, told)
    if piece.id.partition(".")[0] != job.partition(".")[0]:
        raise ValueError(f"it is the log of {piece.id}")
    if len(piece.text) > PIECE_BYTES or not start <= piece.next <= start + PIECE_BYTES:
        raise ValueError("it is more of the log than was asked for")
    if piece.next < min(piece.size, start + PIECE_BYTES) - _CHARACTER:
        raise ValueError("it is less of the log than there is")
    return changed(piece, start=start)


def _printable(job: Job) -> Job:
    return changed(
        job,
        node=None if job.node is None else excerpt(job.node, _NAME),
        reason=None if job.reason is None else excerpt(job.reason, _REASON),
        gpus=job.gpus[:MOST_GPUS],
        submitter=job.submitter or None,  # an image of an earlier version tells none
    )
