"""The workers of a cluster, as they and the program for jobs tell of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Record, Shape
from gpuprov.shapes.words import Plain, Printed


class Pong(Shape, frozen=True, kw_only=True):
    """What a task on a worker says.

    Attributes:
        pid: Of the worker's process, in the node.
        gpu: UUID of the GPU that its work sees.
    """

    node: Printed
    pid: Annotated[int, Meta(ge=1, le=2**32)]
    gpu: Printed


class Said(Pong, frozen=True, kw_only=True):
    """What a worker says of itself, when all are asked.

    Attributes:
        name: UUID of its GPU, @, and its node.
        busy: Whether it is at a run or another task.
        fault: Why it takes no work: memory of its GPU was not scrubbed; absent where it takes work.
    """

    name: Printed
    busy: bool
    fault: Plain | UnsetType = UNSET


class Worker(Said, frozen=True, kw_only=True):
    """A process that takes work from a queue, for one GPU.

    Attributes:
        task_gpu: UUID of the GPU that a task on this worker saw just now; null if it was busy.
    """

    task_gpu: Printed | None


class Workers(Record, frozen=True, kw_only=True, tag="gpuprov.workers/v1"):
    """What `python3 -m gpuwork.jobs workers` prints: the workers that answered, and how much waits.

    Attributes:
        waiting: Messages that no worker has taken yet.
    """

    waiting: Annotated[int, Meta(ge=0, le=2**40)]
    workers: tuple[Worker, ...]
