"""Runs of CUDA programs: their folder, how far they are, and how they ended."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from gpuprov.shapes.base import Document, Record, Shape
from gpuprov.shapes.error import Error
from gpuprov.shapes.programs import Name, ProgramName, Target
from gpuprov.shapes.words import Count, Hash, Path, Word

Workers = Annotated[int, Meta(ge=0, le=10_000)]
Port = Annotated[int, Meta(ge=1, le=65535)]
Node = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,62}\Z")]
Text = Annotated[str, Meta(max_length=4096)]
Coordinate = Annotated[float, Meta(ge=-1e300, le=1e300)]  # a chart adds them up
MOST_POINTS = 5000


class ProgramFolder(Record, frozen=True, kw_only=True, tag="gpuprov.program-folder/v1"):
    """`run.json` in the folder of a run of a program.

    Attributes:
        program: Its folder in the store.
        workers: How many there are to be.
        is_table: The dataset is the table as it was read.
        local: All of it is on one machine.
    """

    path: Text
    program: Text
    workers: Annotated[int, Meta(ge=1, le=10_000)]
    is_table: bool
    local: bool


class Meeting(Shape, frozen=True, kw_only=True):
    """Where the workers of a run meet.

    Attributes:
        address: Of the scheduler.
        node: The machine that it is on.
        page: The port of Dask's page there, on 127.0.0.1; null if Dask has none.
        number: Which scheduler of this run it is: one that was started again is another one.
    """

    address: Text
    node: Text
    page: Port | None
    number: Text


class Progress(Shape, frozen=True, kw_only=True):
    """How far a run is.

    Attributes:
        workers: How many work on it.
        iterations: How many are done.
    """

    workers: Workers
    rows: Count
    iterations: Count


class ProgramWorker(Shape, frozen=True, kw_only=True):
    """Who worked on a run.

    Attributes:
        gpu: UUID; null without a GPU.
        name: Of the GPU.
        rows: That it had last.
    """

    number: Workers
    node: Annotated[str, Meta(max_length=255)]
    gpu: Annotated[str, Meta(max_length=100)] | None
    name: Word | None
    built_for: Target
    rows: Count


class ChartGroup(Shape, frozen=True, kw_only=True):
    """Points that belong together.

    Attributes:
        marked: Drawn as crosses.
    """

    label: Annotated[str, Meta(max_length=100)]
    points: tuple[tuple[Coordinate, Coordinate], ...]
    marked: bool


class Chart(Shape, frozen=True, kw_only=True):
    """What `chart_result` gives."""

    title: Annotated[str, Meta(max_length=200)]
    groups: tuple[ChartGroup, ...]

    def __post_init__(self) -> None:
        """Refuse more points than can be drawn."""
        if sum(len(group.points) for group in self.groups) > MOST_POINTS:
            raise ValueError(f"has more than {MOST_POINTS} points")


class ProgramResult(Record, frozen=True, kw_only=True, tag="gpuprov.program-result/v1"):
    """What `python3 -m gpuwork.programs run` prints, and `work 0`; the end of a run.

    Attributes:
        seconds: Of all iterations.
        moved: Slices that another worker took over, as theirs had died.
        simulated: The GPUs are simulated, or a worker has none and ran the stand-in for CUDA.
        result: What `describe_result` gives; without it, the fields of the last state and result.
    """

    program: ProgramName
    iterations: Count
    seconds: Annotated[float, Meta(ge=0, le=1e300)]
    rows: Count
    moved: Count
    simulated: bool
    workers: tuple[ProgramWorker, ...]
    result: Any
    chart: Chart | None


class ProgramPrepared(Record, frozen=True, kw_only=True, tag="gpuprov.program-prepared/v1"):
    """What `python3 -m gpuwork.programs prepare` prints.

    Attributes:
        run: Folder of the run.
    """

    run: Path
    hash: Hash
    name: Name


class ProgramProgress(Record, frozen=True, kw_only=True, tag="gpuprov.program-progress/v1"):
    """What `python3 -m gpuwork.programs look` prints.

    Attributes:
        progress: Null before the first worker has come.
        end: Null while it goes on.
    """

    progress: Progress | None
    end: ProgramResult | Error | None


class RunPage(Shape, frozen=True, kw_only=True):
    """Where Dask shows a run to the node that leads it alone.

    Attributes:
        port: Of 127.0.0.1 there.
    """

    node: Node
    port: Port


class ProgramPages(Record, frozen=True, kw_only=True, tag="gpuprov.program-pages/v1"):
    """What `python3 -m gpuwork.programs pages` prints.

    Attributes:
        page: Of the run that began last and goes on; null where there is none.
    """

    page: RunPage | None


class ProgramRun(Document, frozen=True, kw_only=True, tag="gpuprov.program-run/v1"):
    """What `gpuprov program run` prints.

    Attributes:
        host: Name of the host.
        cluster: Null on this machine.
        id: Of the jobs; null on this machine.
    """

    host: Word
    cluster: Word | None
    id: Word | None
    result: ProgramResult


class ProgramPage(Document, frozen=True, kw_only=True, tag="gpuprov.program-page/v1"):
    """What `gpuprov program page` prints as soon as the page can be opened.

    Attributes:
        host: Name of the host.
        node: That shows the page.
        address: Can be opened on this host, until the command is ended.
    """

    host: Word
    cluster: Word
    node: Word
    address: Annotated[str, Meta(pattern=r"^http://127[.]0[.]0[.]1:[0-9]{1,5}/status\Z")]
