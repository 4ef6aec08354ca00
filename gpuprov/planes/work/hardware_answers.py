"""What the program `gpuwork.hardware` says of a machine, read strictly: root in a node can say anything."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.answer_kinds import fields_of, is_bool, items_of, matches, number_in, or_none, pick, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA: Final = "gpuprov.machine-hardware/v1"
PROGRAM: Final = ("python3", "-I", "-m", "gpuwork.hardware")
_COUNT: Final = number_in(0, 2**62)
_NUMBERS: Final = (
    *("memory_bytes", "multiprocessors", "clock_khz", "threads_of_multiprocessor", "blocks_of_multiprocessor"),
    *("largest_block", "block_size_hint"),
)
_GPU: Final = {
    "uuid": text_of(100),
    "name": or_none(text_of(300)),
    "compute_capability": or_none(matches(re.compile(r"[0-9]{1,3}\.[0-9]{1,3}", re.ASCII))),
    **{name: or_none(_COUNT) for name in _NUMBERS},
}


@dataclass(frozen=True, kw_only=True)
class MachineHardware:
    """The processors and GPUs of a machine.

    Attributes:
        machine: Its name.
        cpu: Name of the processors.
        threads: How many of them there are.
        gpus: What CUDA's driver tells of each; null where it does not.
        simulated: Whether the GPUs are.
        reason: Why CUDA's driver tells nothing; None where it does.
    """

    machine: str
    cpu: str
    threads: int
    gpus: tuple[Mapping[str, Any], ...]
    simulated: bool
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class NodeHardware:
    """What a node has, or why nobody knows."""

    node: str
    hardware: MachineHardware | None
    reason: str | None


def read_hardware(told: Mapping[str, Any]) -> MachineHardware:
    """A machine; raises ValueError for anything else."""
    machine, cpu, gpus, simulated, reason = fields_of(
        told,
        SCHEMA,
        {"machine": text_of(255), "cpu": lambda value: isinstance(value, dict), "gpus": items_of(is_gpu),
         "simulated": is_bool, "reason": or_none(text_of(1000))},
    )  # fmt: skip
    name, threads = pick(cpu, {"name": text_of(200), "threads": number_in(1, 10**6)})
    return MachineHardware(
        machine=machine, cpu=name, threads=threads, gpus=tuple(gpus), simulated=simulated, reason=reason
    )


def is_gpu(told: object) -> bool:
    """Whether it says of a GPU what such programs say."""
    return bool(pick(told, _GPU))
