"""Annealing: what the folder of runs has of each, and how far runs are, as programs in nodes and gpuprov tell it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.anneal_settings import AnnealSettings
from gpuprov.shapes.base import Document, Record, Shape
from gpuprov.shapes.faults import Fault
from gpuprov.shapes.job_run import Gpu
from gpuprov.shapes.jobs import SubmissionId
from gpuprov.shapes.limits import FREE_NAME, MOST_RUNS
from gpuprov.shapes.words import Count, Hash, HostName, Word

BEST_FILE = "best.json"  # in the folder of a run: what a person looks at first
_MOST_PLACE = 5  # numbers of a state that a line has room for
MOST_TOLD = 100  # troubles of a part; the others are counted
Phase = Literal["compile", "divide", "run", "write"]
PartState = Literal["waiting", "running", "done", "failed"]
RunState = Literal["waiting", "running", "merging", "done", "failed"]
_RUN_NAME = rf"^{FREE_NAME}\Z"
RunName = Annotated[str, Meta(pattern=_RUN_NAME)]
Chains = Annotated[int, Meta(ge=1, le=10**15)]
Parts = Annotated[int, Meta(ge=1, le=MOST_RUNS)]
Block = Annotated[int, Meta(ge=1, le=1024)]
Drawn = Annotated[float, Meta(ge=-1e300, le=1e300)]
Folder = Annotated[str, Meta(max_length=4096)]
Reason = Annotated[str, Meta(max_length=1000)]
Traceback = Annotated[str, Meta(max_length=100_000)]


class AnnealChecked(Document, frozen=True, kw_only=True, tag="gpuprov.anneal-checked/v1"):
    """What `gpuprov anneal check` prints, and `python3 -m gpuwork.anneal check --json`.

    Attributes:
        host: Name of the host; printed by gpuprov.
    """

    together: ClassVar[Mapping[str, tuple[str, ...]]] = {"seconds": ("host",)}
    faults: tuple[Fault, ...] = ()
    host: HostName | UnsetType = UNSET


class AnnealOrder(Record, frozen=True, kw_only=True, tag="gpuprov.anneal-order/v1"):
    """`order.json` in the folder of a run.

    Attributes:
        name: For people.
        code: Hash of the frozen model, which is not run if it was changed.
        parts: Into how many its chains are divided.
        settings: How the model is annealed.
    """

    name: RunName
    code: Hash
    parts: Parts
    settings: AnnealSettings


class AnnealRuns(Record, frozen=True, kw_only=True, tag="gpuprov.anneal-runs/v1"):
    """`runs.json` in a folder of runs that were prepared together.

    Attributes:
        runs: Their names, which are also their folders.
    """

    runs: tuple[RunName, ...]


class AnnealDivision(Record, frozen=True, kw_only=True, tag="gpuprov.anneal-division/v1"):
    """`division.json` in the folder of a run: written once.

    Attributes:
        shares: How many chains each part has.
    """

    shares: tuple[Annotated[int, Meta(ge=1, le=10**9)], ...]


class Trouble(Shape, frozen=True, kw_only=True):
    """Something that is wrong with a chain.

    Attributes:
        chain: Its number in the whole run.
        step: When it was noticed.
        kind: After an error the chain did not go on, or its value is not to be used.
        message: In words.
    """

    chain: Count
    step: Count
    kind: Literal["error", "warning"]
    message: Reason


class AnnealPart(Record, frozen=True, kw_only=True, tag="gpuprov.anneal-part/v1"):
    """`result.json` in the folder of a part that has ended.

    Attributes:
        first: The number of its first chain.
        chains: How many it has.
        node: Where it ran.
        gpus: UUIDs of the GPUs that it saw.
        device: The name of the one that it used.
        simulated: Whether that is simulated.
        block: Threads of a block.
        rate: Steps of a chain in a second, of all its chains together.
        steps: How many its longest chain did.
        best: The best value of its chains; null if none has one.
        seconds: How long its chains ran.
        errors: How many chains have an error.
        warnings: How many have a warning.
        troubles: The first of these.
    """

    first: Count
    chains: Chains
    node: Word
    gpus: tuple[Gpu, ...]
    device: Word
    simulated: bool
    block: Block
    rate: float
    steps: Count
    best: float | None
    seconds: float
    errors: Count
    warnings: Count
    troubles: Annotated[tuple[Trouble, ...], Meta(max_length=MOST_TOLD)]


class AnnealBest(Record, frozen=True, kw_only=True, tag="gpuprov.anneal-best/v1"):
    """`best.json` in the folder of a run that is merged: the best of all chains.

    Attributes:
        name: Of the run.
        value: Null, as all that follows, if no chain has a value.
        chain: The number of the chain that had it.
        steps: How many steps that chain did.
        state: All numbers of its state; null for one that is not finite.
        simulated: Whether any part ran on a simulated device.
    """

    name: RunName
    value: float | None
    chain: Count | None
    steps: Count | None
    state: tuple[float | None, ...] | None
    simulated: bool


class PartProgress(Shape, frozen=True, kw_only=True):
    """`progress.json`: how far a part is.

    Attributes:
        best: Null until a chain has a value.
    """

    phase: Phase
    step: Count = 0
    best: float | None = None


class Failure(Shape, frozen=True, kw_only=True):
    """`failure.json`: why a part has no result, as the predecessor told it.

    Attributes:
        message: Has the traceback.
    """

    type: Word
    exception: Word
    message: Traceback


class PreparedRun(Shape, frozen=True, kw_only=True):
    """A run whose folder was written.

    Attributes:
        parts: Into how many its chains are divided.
    """

    name: RunName
    parts: Parts


class AnnealPrepared(Record, frozen=True, kw_only=True, tag="gpuprov.anneal-prepared/v1"):
    """The document of `python3 -m gpuwork.anneal prepare`.

    Attributes:
        folder: Of the runs.
        parts: Of all runs.
    """

    folder: Folder
    runs: Annotated[tuple[PreparedRun, ...], Meta(min_length=1)]
    parts: Annotated[int, Meta(ge=1, le=10**15)]


class Part(Shape, frozen=True, kw_only=True):
    """Some chains of a run.

    Attributes:
        part: Its number.
        state: Whether it waits, runs, or how it ended.
        phase: What it does while it runs.
        step: At which step its chains were last seen.
        best: Their best value then.
        first: The number of the first of its chains, once it has ended.
        chains: How many it had.
        node: Where it ran.
        gpus: UUIDs of the GPUs that it saw.
        device: The name of the one that it used.
        simulated: Whether that was simulated.
        block: Threads of a block.
        rate: Steps of a chain in a second, of all its chains together.
        seconds: How long its chains ran.
        reason: Why it failed.
    """

    part: Count
    state: PartState = "waiting"
    phase: Phase | None = None
    step: Count = 0
    best: float | None = None
    first: Count | None = None
    chains: Chains | None = None
    node: Word | None = None
    gpus: tuple[Gpu, ...] = ()
    device: Word | None = None
    simulated: bool = False
    block: Block | None = None
    rate: float | None = None
    seconds: float | None = None
    reason: Reason | None = None


class ChainSeries(Shape, frozen=True, kw_only=True):
    """The best values of a chain over its steps.

    Attributes:
        points: Step and value.
    """

    chain: Count
    points: tuple[tuple[Count, Drawn], ...]


class Run(Shape, frozen=True, kw_only=True):
    """A model that is annealed.

    Attributes:
        name: Of the model, and of the configuration where there are several.
        folder: Where everything of it is.
        state: How far it is.
        chains: How many it has.
        max_steps: Of each.
        simulated: Whether any part ran on a simulated device.
        best: The best value so far, or of all.
        best_chain: The number of the chain that had it, once all is merged.
        best_state: Its state, the first 1000 numbers.
        errors: How many chains have an error.
        warnings: How many have a warning.
        troubles: The first of these.
        parts: Into which its chains are divided.
        series: The best values over the steps, of 64 chains at most, for whoever asks; told by a node alone.
    """

    name: RunName
    folder: Folder
    state: RunState
    chains: Chains
    max_steps: Chains
    simulated: bool
    best: float | None = None
    best_chain: Count | None = None
    best_state: tuple[float, ...] | None = None
    errors: Count
    warnings: Count
    troubles: tuple[Trouble, ...]
    parts: tuple[Part, ...]
    series: tuple[ChainSeries, ...] | UnsetType = UNSET

    @property
    def best_place(self) -> str:
        """Where the best value is: the first numbers of its state, for people; empty where it is not known."""
        if not self.best_state:
            return ""
        numbers = [f"{number:.6g}" for number in self.best_state[:_MOST_PLACE]]
        more = ["..."] if len(self.best_state) > _MOST_PLACE else []
        return f"({', '.join([*numbers, *more])})"


class AnnealShown(Record, frozen=True, kw_only=True, tag="gpuprov.anneal-shown/v1"):
    """The document of `python3 -m gpuwork.anneal show` and `merge`."""

    runs: tuple[Run, ...]


class AnnealRun(Document, frozen=True, kw_only=True, tag="gpuprov.anneal-run/v1"):
    """What `gpuprov anneal run` prints.

    Attributes:
        host: Name of the host.
        cluster: Null with --local.
        job: Id of the jobs; null with --local.
        folder: Where the results are on this host; null if there are none.
        exit_code: 1 if a part failed or a chain has an error.
    """

    host: HostName = ""
    cluster: HostName | None = None
    job: SubmissionId | None = None
    folder: Folder | None
    exit_code: Annotated[int, Meta(ge=0)]
    runs: tuple[Run, ...]


def is_run_name(text: str) -> bool:
    """Whether a run can have this name."""
    return re.match(_RUN_NAME, text) is not None
