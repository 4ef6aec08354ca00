"""Jobs of a cluster, as `submit`, `jobs` and the verbs below it tell them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.planes.work.job_answers import JobList, JobRecord, LogPiece, ShownJobs, ShownSubmission, Submitted
    from gpuprov.planes.work.job_changes import JobChange


def job_document(job: JobRecord) -> dict[str, Any]:
    """One job."""
    return {**asdict(job), "gpus": list(job.gpus)}


def submitted_document(submitted: Submitted, *, cluster: str, host: str) -> dict[str, Any]:
    """What was submitted."""
    return document("job-submitted", host=host, cluster=cluster, id=submitted.id, jobs=list(submitted.jobs))


def jobs_document(jobs: Sequence[JobRecord], *, cluster: str, host: str) -> dict[str, Any]:
    """Some jobs."""
    return document("jobs", host=host, cluster=cluster, jobs=[*map(job_document, jobs)])


def all_jobs_document(listed: JobList, *, cluster: str, host: str) -> dict[str, Any]:
    """All jobs."""
    return {**jobs_document(listed.jobs, cluster=cluster, host=host), "older": listed.older}


def job_changes_document(changes: Sequence[JobChange], *, cluster: str, host: str) -> dict[str, Any]:
    """What is other than in the round before."""
    told = [
        {"kind": one.kind, "job": job_document(one.job) if one.job else None, "text": one.text or None}
        for one in changes
    ]
    return document("jobs-watch", host=host, cluster=cluster, changes=told)


def shown_document(shown: ShownJobs, *, cluster: str, host: str) -> dict[str, Any]:
    """Some jobs, and what they belong to."""
    return document(
        "jobs-shown",
        host=host,
        cluster=cluster,
        jobs=[*map(job_document, shown.jobs)],
        submissions=[*map(_submission_document, shown.submissions)],
    )


def log_document(pieces: Sequence[LogPiece], *, cluster: str, host: str) -> dict[str, Any]:
    """Adjoining parts of a log, as one; there is at least one."""
    first, last = pieces[0], pieces[-1]
    told = {**asdict(last), "start": first.start, "text": "".join(piece.text for piece in pieces)}
    return document("job-log", host=host, cluster=cluster, **told)


def _submission_document(submission: ShownSubmission) -> dict[str, Any]:
    return {
        "id": submission.id,
        "submitted": submission.submitted,
        "code": submission.code,
        "folder": submission.folder,
        "slurm": list(submission.slurm),
        "order": submission.order.document(submission.project),
    }
