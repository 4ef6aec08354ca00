"""What the folder of jobs has of a submission and of each of its runs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gpuprov.shapes.base import Record, Shape
from gpuprov.shapes.job_order import Runs
from gpuprov.shapes.limits import MOST_GPUS, MOST_RUNS
from gpuprov.shapes.words import ExitStatus, Hash, HostName, Moment, Number

Gpu = Annotated[str, Meta(pattern=r"^[A-Za-z0-9/-]{1,100}\Z")]
System = Literal["slurm", "workers"]
RunState = Literal["waiting", "running", "done", "failed", "cancelled"]


class Chunk(Shape, frozen=True, kw_only=True):
    """Runs that are one array of Slurm's.

    Attributes:
        slurm: Its id.
        first: Number of the first run.
        size: How many runs.
    """

    slurm: Annotated[int, Meta(ge=1, le=2**32)]
    first: Annotated[int, Meta(ge=0, le=MOST_RUNS)]
    size: Runs


class JobSubmission(Record, frozen=True, kw_only=True, tag="gpuprov.job-submission/v1"):
    """submitted.json in the folder of a submission: written when all of it was handed in.

    Attributes:
        submitted: When it was handed in.
        code: The hash of the project's files, and the name of their frozen copy.
        system: What it was handed to.
        chunks: Slurm's arrays, in the order of the runs; empty for workers.
    """

    submitted: Moment
    code: Hash | None
    system: System
    chunks: tuple[Chunk, ...]


class JobRun(Record, frozen=True, kw_only=True, tag="gpuprov.job-run/v1"):
    """state.json and done.json in the folder of a run.

    Attributes:
        state: `waiting` between two tries.
        tries: How often it was begun.
        failed: How many of these tries failed.
        lost: How many were killed, so that nothing is known of how they would have ended.
        node: Where the last one was begun.
        gpus: UUIDs of the GPUs that the run can see.
        simulated: Whether these are simulated.
        image: The fingerprint of the node's image.
        started: When the last try began.
        ended: When it ended.
        exit_status: Of the command.
        reason: Why it is not done.
    """

    state: RunState = "waiting"
    tries: Number = 0
    failed: Number = 0
    lost: Number = 0
    node: HostName | None = None
    gpus: Annotated[tuple[Gpu, ...], Meta(max_length=MOST_GPUS)] = ()
    simulated: bool = False
    image: HostName | None = None
    started: Moment | None = None
    ended: Moment | None = None
    exit_status: ExitStatus | None = None
    reason: Annotated[str, Meta(max_length=1000)] | None = None


class Notified(Shape, frozen=True, kw_only=True):
    """What came of the command or webhook that a submission names for its end.

    Attributes:
        at: When it ended; when it began, if that is not recorded.
        ok: Whether it succeeded.
        reason: Why it failed.
    """

    at: Moment
    ok: bool
    reason: Annotated[str, Meta(max_length=1000)] | None
