"""Grids: what the folder of runs has of each, and how far runs are, as programs in nodes and gpuprov tell it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from gpuprov.shapes.base import Document, Record, Shape
from gpuprov.shapes.faults import Fault
from gpuprov.shapes.job_order import JobOrder
from gpuprov.shapes.jobs import JobId, OfCluster, SubmissionId
from gpuprov.shapes.words import PYTHON_NAME, ExitStatus, Hash, HostName, Moment, Number, Path, Seconds, Word

RUNS = "runs"  # of a project: the folder of its results
VALUES = "param2val.yaml"  # in the folder of a combination
HEAD = ("param_name", "job_name")  # of the table of runs: its first columns
RunState = Literal["done", "failed", "running", "waiting"]
_PARAM = r"param_[0-9]{3,6}"
_MOMENT = r"[0-9]{4}(-[0-9]{2}){5}"
_RUN_NAME = rf"^{_PARAM}/{_MOMENT}_num[1-9][0-9]{{0,5}}\Z"
_STAMP = rf"^{_MOMENT}(_[1-9][0-9]{{0,5}})?\Z"
_SERIES_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_ .=+-]{0,99}\Z"
Param = Annotated[str, Meta(pattern=rf"^{_PARAM}\Z")]
RunName = Annotated[str, Meta(pattern=_RUN_NAME)]
Stamp = Annotated[str, Meta(pattern=_STAMP)]
SeriesName = Annotated[str, Meta(pattern=_SERIES_NAME)]
Module = Annotated[str, Meta(pattern=rf"^({PYTHON_NAME}\.)?{PYTHON_NAME}\Z", max_length=1000)]
Runs = Annotated[int, Meta(ge=0, le=10**7)]
Column = Annotated[str, Meta(max_length=200)]
Cell = Annotated[str, Meta(max_length=5000)]
PointText = Annotated[str, Meta(max_length=100)]


class GridChecked(Record, frozen=True, kw_only=True, tag="gpuprov.grid-checked/v1"):
    """The document of `python3 -m gpuwork.grid check`.

    Attributes:
        files: Files and links of the project, relative to it.
        combinations: Hash of the values of each combination, in the order in which they are written; empty if there are
            faults; null if params.py cannot be run here, for want of a package, and nothing else is wrong.
    """

    files: tuple[str, ...]
    combinations: tuple[Hash, ...] | None
    faults: tuple[Fault, ...]


class MissingRuns(Shape, frozen=True, kw_only=True):
    """What `gpuwork/submit_grid.py` is asked for on stdin.

    Attributes:
        project: A folder in the node.
        store: Where its runs are.
        options: Of `python3 -m gpuwork.grid prepare`.
        jobs: The folder of jobs.
        order: What each run gets; in its command, `{folder}` stands for the submission that is prepared.
    """

    project: Path
    store: Path
    options: tuple[str, ...]
    jobs: Path
    order: JobOrder


class GridPrepared(Record, frozen=True, kw_only=True, tag="gpuprov.grid-prepared/v1"):
    """The document of `python3 -m gpuwork.grid prepare`.

    Attributes:
        folder: Of the submission; null if no run is missing.
        done: How many runs are done already.
        under_way: How many wait or run.
        other_code: How many of the runs that are done ran other code.
    """

    folder: str | None
    runs: tuple[RunName, ...]
    done: Runs
    under_way: Runs
    other_code: Runs


class GridSubmission(Record, frozen=True, kw_only=True, tag="gpuprov.grid-submission/v1"):
    """submission.json: runs of a grid that were handed in together; no path in it is that of one machine.

    Attributes:
        project: Its name.
        code: The hash of the frozen copy.
        module: The module with main.
        varied: Names whose values differ between runs.
        runs: Their folders, relative to the store; run N is item N.
    """

    project: Word
    code: Hash
    module: Module
    varied: tuple[Word, ...]
    runs: Annotated[tuple[RunName, ...], Meta(min_length=1)]


class GridDone(Record, frozen=True, kw_only=True, tag="gpuprov.grid-done/v1"):
    """done.json: how a run of a grid ended. docs/grids.md explains it.

    Attributes:
        run: Its folder, relative to the store.
        exit_status: 128 + N for signal N.
        reason: Why it failed.
        node: Where it ran.
        gpus: UUIDs of the GPUs that the run can see.
        simulated: Whether these are simulated.
        started: When its last try began.
        ended: When that ended.
        seconds: How long that took.
        tries: How often the run was begun.
        code: Hash of the project's files, and name of their frozen copy.
        values: Hash of the values, as in the first line of param2val.yaml.
        image: Fingerprint of the node's image.
    """

    run: RunName
    state: Literal["done", "failed"]
    exit_status: ExitStatus
    reason: str | None
    node: Word
    gpus: tuple[Word, ...]
    simulated: bool
    started: Moment
    ended: Moment
    seconds: Seconds
    tries: Annotated[int, Meta(ge=1, le=1_000_000)]
    code: Hash
    values: Hash
    image: Word | None


class GridListed(Record, frozen=True, kw_only=True, tag="gpuprov.grid-listed/v1"):
    """The document of `python3 -m gpuwork.grid list`: all runs of a grid.

    Attributes:
        columns: As in the CSV of `results`.
        rows: A row for each run.
        combinations: Combination to the hash of its values.
        submissions: Folder of a submission to its runs; none if it cannot be read.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    combinations: Mapping[Param, Hash]
    submissions: Mapping[Stamp, tuple[RunName, ...]]

    @property
    def runs(self) -> tuple[Mapping[str, str], ...]:
        """The rows, each with its cells by column."""
        return tuple(dict(zip(self.columns, row, strict=True)) for row in self.rows)

    @property
    def simulated(self) -> bool:
        """Whether any run had simulated GPUs."""
        return any(run["run.simulated"] == "True" for run in self.runs)


class Combination(Shape, frozen=True, kw_only=True):
    """The series of a combination.

    Attributes:
        label: The values that tell it from the others, such as `lr=0.1 units=64`.
        runs: How many are done.
        series: Name of a series to the points of each run: index and value, as in the file.
    """

    name: Param
    label: Annotated[str, Meta(max_length=500)]
    runs: Runs
    series: Mapping[SeriesName, tuple[tuple[tuple[PointText, PointText], ...], ...]]


class GridSeries(Record, frozen=True, kw_only=True, tag="gpuprov.grid-series/v1"):
    """The document of `python3 -m gpuwork.grid series`.

    Attributes:
        combinations: Those with a run that is done, 200 at most.
        left_out: How many more combinations there are.
    """

    combinations: tuple[Combination, ...]
    left_out: Runs


class GridSubmitted(OfCluster, frozen=True, kw_only=True, tag="gpuprov.grid-submitted/v1"):
    """What `gpuprov grid run` prints; without `host`, what it is told by a node.

    Attributes:
        project: Name of the project's folder.
        id: Of the jobs; null if no run was missing.
        runs: Run N is job ID.N.
        done: Runs that are done already.
        under_way: Runs that wait or run.
        other_code: How many of the runs that are done ran other code.
    """

    together: ClassVar[Mapping[str, tuple[str, ...]]] = {"host": ("cluster", "seconds"), "cluster": ("host",)}
    project: Word
    id: SubmissionId | None
    runs: tuple[RunName, ...]
    done: Runs
    under_way: Runs
    other_code: Runs


class OfGrid(Document, frozen=True, kw_only=True):
    """What gpuprov prints of a project's runs.

    Attributes:
        host: Name of the host.
        project: Name of the project's folder.
    """

    host: HostName = ""
    cluster: HostName = ""
    project: Word


class GridLocal(Document, frozen=True, kw_only=True, tag="gpuprov.grid-local/v1"):
    """What `gpuprov grid run --local` prints.

    Attributes:
        host: Name of the host.
        project: Name of the project's folder.
        folder: Where the runs are.
        exit_code: 1 if a run failed.
    """

    host: HostName
    project: Word
    folder: str
    exit_code: Literal[0, 1]


class Counts(Shape, frozen=True, kw_only=True):
    """How many runs have each state.

    Attributes:
        missing: Combinations that `grid run` would submit.
    """

    done: Number
    failed: Number
    running: Number
    waiting: Number
    missing: Number


class GridRun(Shape, frozen=True, kw_only=True):
    """A run of a grid.

    Attributes:
        name: Its folder, relative to the runs of the project.
        state: Whether it waits, runs, or how it ended.
        values: Those that differ between runs, such as `lr=0.1 units=64`.
        job: Id of the job that makes or made it; null if the cluster no longer lists it.
        node: Where it runs, or ran.
        gpus: UUIDs of the GPUs that the run can see.
        simulated: Whether these are simulated.
        seconds: How long it took.
        reason: Why it failed, or waits.
    """

    name: RunName
    state: RunState
    values: str
    job: JobId | None
    node: str | None
    gpus: tuple[str, ...]
    simulated: bool
    seconds: Seconds | None
    reason: str | None


class GridStatus(OfGrid, frozen=True, kw_only=True, tag="gpuprov.grid-status/v1"):
    """What `gpuprov grid status` prints."""

    counts: Counts
    runs: tuple[GridRun, ...]


class GridResults(OfGrid, frozen=True, kw_only=True, tag="gpuprov.grid-results/v1"):
    """What `gpuprov grid results` prints.

    Attributes:
        simulated: Whether any run had simulated GPUs.
        rows: A row for each run.
    """

    simulated: bool
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


class GridPulled(OfGrid, frozen=True, kw_only=True, tag="gpuprov.grid-pulled/v1"):
    """What `gpuprov grid pull` prints.

    Attributes:
        folder: Where the runs are now.
        table: The file with all runs.
        runs: Those that were copied.
        here: Runs that have ended and were there before.
        files: How many files came.
        bytes: Their sizes.
    """

    folder: str
    table: str
    runs: tuple[RunName, ...]
    here: Number
    files: Annotated[int, Meta(ge=0)]
    bytes: Annotated[int, Meta(ge=0)]


def is_run_name(text: str) -> bool:
    """Whether a run can have this name."""
    return re.match(_RUN_NAME, text) is not None


def is_stamp(text: str) -> bool:
    """Whether the folder of a submission can have this name."""
    return re.match(_STAMP, text) is not None


def is_series_name(text: str) -> bool:
    """Whether a series can have this name."""
    return re.match(_SERIES_NAME, text) is not None
