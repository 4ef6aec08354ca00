"""What `python3 -m gpuwork.jobs workers` in a node answers, read strictly: root in the node can say anything else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.answer_kinds import fields_of, is_bool, is_list, matches, number_in, or_none, pick

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.core.answer_kinds import Accepts

WORKERS: Final = "gpuprov.workers/v1"
_PRINTED: Final = matches(re.compile(r"[!-~]{1,300}", re.ASCII))
_WORKER: Final[Mapping[str, Accepts]] = {
    "name": _PRINTED,
    "node": _PRINTED,
    "pid": number_in(1, 2**32),
    "gpu": _PRINTED,
    "busy": is_bool,
    "task_gpu": or_none(_PRINTED),
}


@dataclass(frozen=True, kw_only=True)
class WorkerRecord:
    """A process that takes work from a queue, for one GPU.

    Attributes:
        name: UUID of its GPU, @, and its node.
        pid: Of its process, in the node.
        gpu: UUID of the GPU that its work sees.
        busy: Whether it is at a run or another task.
        task_gpu: UUID of the GPU that a task on it saw just now; None if it was busy.
    """

    name: str
    node: str
    pid: int
    gpu: str
    busy: bool
    task_gpu: str | None


def read_workers(told: Mapping[str, Any]) -> tuple[WorkerRecord, ...]:
    """The workers that answered; raises ValueError for anything else."""
    workers, _ = fields_of(told, WORKERS, {"workers": is_list, "waiting": number_in(0, 2**40)})
    return tuple(WorkerRecord(**dict(zip(_WORKER, pick(one, _WORKER), strict=True))) for one in workers)
