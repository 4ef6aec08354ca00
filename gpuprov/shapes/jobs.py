"""Jobs of a cluster, as the program for jobs in its nodes tells them, and gpuprov to people and programs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Document, Record, Shape
from gpuprov.shapes.choices import JobState
from gpuprov.shapes.faults import Fault
from gpuprov.shapes.job_order import JobOrder
from gpuprov.shapes.job_run import Gpu, Notified
from gpuprov.shapes.submitter import Submitter
from gpuprov.shapes.words import ExitStatus, Hash, HostName, Moment, Number, Path

ENDED: frozenset[JobState] = frozenset({"done", "failed", "cancelled", "lost"})
LIVE: frozenset[JobState] = frozenset({"waiting", "running"})
ChangeKind = Literal["new", "changed", "gone", "error", "recovered"]
_NUMBER = r"[1-9][0-9]{0,8}"
_JOB_ID = rf"^{_NUMBER}(\.(0|[1-9][0-9]{{0,5}}))?\Z"
SubmissionId = Annotated[str, Meta(pattern=rf"^{_NUMBER}\Z")]
JobId = Annotated[str, Meta(pattern=_JOB_ID)]
Bytes = Annotated[int, Meta(ge=0, le=2**62)]


class OfCluster(Document, frozen=True, kw_only=True):
    """What gpuprov and programs in nodes print alike.

    Attributes:
        host: Name of the host; printed by gpuprov.
        cluster: Printed by gpuprov.
    """

    together: ClassVar[Mapping[str, tuple[str, ...]]] = {"cluster": ("host",)}
    host: HostName | UnsetType = UNSET
    cluster: HostName | UnsetType = UNSET


class Job(Shape, frozen=True, kw_only=True):
    """One run of what was handed in.

    Attributes:
        id: Of the submission, such as `7`; run 3 of a submission with a count is `7.3`.
        name: As its user calls it.
        state: `lost`: it is no longer queued, and how it ended was not recorded.
        tries: How often it was begun.
        node: Where it runs, or ran last.
        gpus: UUIDs of the GPUs that the run can see.
        simulated: Whether these GPUs are simulated.
        exit_status: Of the command, 128 + N for signal N; null if it has not ended, or was ended from outside.
        submitter: Who handed it in; null or absent where that is not known.
        submitted: When it was handed in, in UTC, or `?`.
        started: When its last try began.
        ended: When it ended.
        log: Path in the nodes of what it printed.
        reason: Why it waits, failed or is lost.
    """

    id: JobId
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:?-]{0,64}\Z")]
    state: JobState
    tries: Number = 0
    node: str | None = None
    gpus: tuple[Gpu, ...] = ()
    simulated: bool = False
    exit_status: ExitStatus | None = None
    submitter: Submitter | UnsetType | None = UNSET
    submitted: Annotated[str, Meta(pattern=r"^(\?|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)\Z")]
    started: Moment | None = None
    ended: Moment | None = None
    log: Path
    reason: str | None = None

    @property
    def submission(self) -> str:
        """The id of what it was submitted with."""
        return self.id.partition(".")[0]


class Jobs(OfCluster, frozen=True, kw_only=True, tag="gpuprov.jobs/v1"):
    """What `gpuprov jobs`, `jobs cancel` and `jobs wait` print, and `python3 -m gpuwork.jobs` for the same verbs.

    Attributes:
        older: How many older submissions are left out; where all are listed.
    """

    jobs: tuple[Job, ...]
    older: Annotated[int, Meta(ge=0, le=10**9)] | UnsetType = UNSET


class JobChange(Shape, frozen=True, kw_only=True):
    """What is other than in the round before.

    Attributes:
        kind: `new`, `changed` and `gone` are about a job; `error` and `recovered` about the whole.
        job: As it is now; as it was, if it is gone.
        text: Why the jobs cannot be read.
    """

    kind: ChangeKind
    job: Job | None = None
    text: str | None = None


class JobsWatch(Document, frozen=True, kw_only=True, tag="gpuprov.jobs-watch/v1"):
    """A line of `gpuprov jobs --watch --json` after the first, which is a gpuprov.jobs/v1.

    Attributes:
        host: Name of the host.
    """

    host: HostName
    cluster: HostName
    changes: Annotated[tuple[JobChange, ...], Meta(min_length=1)]


class Submission(Shape, frozen=True, kw_only=True):
    """What was handed in at once.

    Attributes:
        submitted: When.
        code: Hash of the project's files, and name of their frozen copy.
        folder: Its own, in the nodes.
        slurm: Ids of Slurm's arrays; empty for workers.
        notified: What came of the order's `notify`; absent until it begins.
    """

    id: SubmissionId
    submitted: Moment
    code: Hash | None
    folder: Path
    slurm: tuple[Annotated[int, Meta(ge=0, le=2**32)], ...]
    order: JobOrder
    notified: Notified | UnsetType = UNSET


class JobsShown(OfCluster, frozen=True, kw_only=True, tag="gpuprov.jobs-shown/v1"):
    """What `gpuprov jobs show` and `python3 -m gpuwork.jobs show` print.

    Attributes:
        submissions: To which the jobs belong.
    """

    jobs: tuple[Job, ...]
    submissions: tuple[Submission, ...]


class JobSubmitted(OfCluster, frozen=True, kw_only=True, tag="gpuprov.job-submitted/v1"):
    """What `gpuprov submit` and `python3 -m gpuwork.jobs submit` print.

    Attributes:
        jobs: Ids of the runs.
    """

    id: SubmissionId
    jobs: Annotated[tuple[JobId, ...], Meta(min_length=1)]


class JobPulled(OfCluster, frozen=True, kw_only=True, tag="gpuprov.job-pulled/v1"):
    """What `gpuprov jobs pull` prints.

    Attributes:
        folder: Path on this machine.
        jobs: Ids of the runs that were copied.
        here: How many runs were there before.
        open: How many runs have not ended, and were left out.
        files: How many were copied.
        bytes: Their sizes.
        links: How many links were left out.
    """

    id: JobId
    folder: Path
    jobs: tuple[JobId, ...]
    here: Number
    open: Number
    files: Number
    bytes: Bytes
    links: Number


class JobLog(OfCluster, frozen=True, kw_only=True, tag="gpuprov.job-log/v1"):
    """A piece of a log, as `gpuprov jobs logs` and `python3 -m gpuwork.jobs logs` print it.

    Attributes:
        start: Byte at which the text begins; printed by gpuprov.
        text: Bytes that are no UTF-8 are replaced.
        next: Byte at which the next piece begins.
        size: Of the log, in bytes.
        whole: The job has ended, and this is the last piece.
    """

    id: JobId
    state: JobState
    start: Bytes | UnsetType = UNSET
    text: str
    next: Bytes
    size: Bytes
    whole: bool


class JobChecked(Record, frozen=True, kw_only=True, tag="gpuprov.job-checked/v1"):
    """What `python3 -m gpuwork.jobs check` prints.

    Attributes:
        files: Of the project, relative to it.
    """

    files: tuple[Annotated[str, Meta(min_length=1)], ...]
    faults: tuple[Fault, ...]


def is_job_id(text: str) -> bool:
    """Whether a job can have this id."""
    return re.match(_JOB_ID, text) is not None


class LeftProcess(Shape, frozen=True, kw_only=True):
    """A process with the marks of a job.

    Attributes:
        of: The job.
        owned: Whether somebody works on that job.
    """

    pid: int
    of: str
    owned: bool
    command: str


class LeftProcesses(Shape, frozen=True, kw_only=True):
    """What `gpuwork/jobs/leftovers.py` prints in a node."""

    processes: tuple[LeftProcess, ...]
