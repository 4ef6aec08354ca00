"""The containers of `gpuprov run`, as `run ps` shows them."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from gpuprov.shapes.base import Document, Shape
from gpuprov.shapes.error import ErrorParts
from gpuprov.shapes.node import Exposure
from gpuprov.shapes.words import ExitStatus, GpuUuid, Moment, Word, Words


class RunRow(Shape, frozen=True, kw_only=True):
    """One container.

    Attributes:
        name: By which the verbs of `gpuprov run` know it.
        node: What its engine calls it.
        host: Name of the host that it is on.
        state: In the engine's word, such as `running`, `restarting` or `exited`.
        status: The same with how long, such as `Up 5 minutes`.
        exit_code: Of a command that has ended; null of one that has not.
        detached: Whether it goes on without the gpuprov that made it, and stays until it is removed.
        gpus: UUIDs of the GPUs or MIG instances that it holds, as long as it exists.
        devices: Their device nodes.
        sharing: `exclusive` or `shared`; empty where it holds no GPU.
        simulated: Whether its GPUs are simulated.
        created: When it was made.
        ports: Ports of the host that lead into it.
    """

    name: Word
    node: Word
    host: Word
    engine: Word
    state: Word
    status: Word
    exit_code: ExitStatus | None
    detached: bool
    gpus: tuple[GpuUuid, ...]
    devices: tuple[Word, ...]
    sharing: Word
    simulated: bool
    image: Word
    command: Words
    created: Moment
    ports: tuple[Exposure, ...]


class Runs(Document, frozen=True, kw_only=True, tag="gpuprov.runs/v1"):
    """The document of `gpuprov run ps --json`, and of `gpuprov run --detach --json`: the one that was started.

    Attributes:
        host: Name of the host.
        error: There where some hosts did not answer.
    """

    host: str
    runs: tuple[RunRow, ...]
    error: ErrorParts | UnsetType = UNSET
