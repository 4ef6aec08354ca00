"""The processors and GPUs of machines."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from gpuprov.shapes.base import Document, Record, Shape
from gpuprov.shapes.error import ErrorParts
from gpuprov.shapes.words import HostName, Word

Amount = Annotated[int, Meta(ge=0, le=2**62)]
Threads = Annotated[int, Meta(ge=1, le=10**6)]
Processors = Annotated[str, Meta(max_length=200)]
Reason = Annotated[str, Meta(max_length=1000)]
WARP = 32
Uuid = Annotated[str, Meta(max_length=100)]


class CudaDevice(Shape, frozen=True, kw_only=True):
    """What CUDA's driver tells of a GPU; clock in kHz.

    Attributes:
        major: Of the compute capability.
        minor: Of the compute capability.
    """

    uuid: Uuid
    name: Word
    memory_bytes: Amount
    major: Annotated[int, Meta(ge=0, le=999)]
    minor: Annotated[int, Meta(ge=0, le=999)]
    multiprocessors: Amount
    clock_khz: Amount
    threads_of_multiprocessor: Amount
    blocks_of_multiprocessor: Amount
    largest_block: Amount

    @property
    def block_size_hint(self) -> int:
        """A number of threads for a block that suits most kernels."""
        room = self.threads_of_multiprocessor / max(1, self.blocks_of_multiprocessor)
        return max(WARP, int((self.largest_block + room) / 2) // WARP * WARP)


class CudaDevices(Shape, frozen=True, kw_only=True):
    """What the program says that asks CUDA's driver.

    Attributes:
        reason: Why there are none.
    """

    gpus: tuple[CudaDevice, ...]
    reason: str | None


class GpuNumbers(Shape, frozen=True, kw_only=True):
    """A GPU; null is what CUDA's driver does not tell.

    Attributes:
        block_size_hint: Threads for a block that suit most kernels.
    """

    uuid: Uuid
    name: Word | None = None
    memory_bytes: Amount | None = None
    compute_capability: Annotated[str, Meta(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}\Z")] | None = None
    multiprocessors: Amount | None = None
    clock_khz: Amount | None = None
    threads_of_multiprocessor: Amount | None = None
    blocks_of_multiprocessor: Amount | None = None
    largest_block: Amount | None = None
    block_size_hint: Amount | None = None


class Cpu(Shape, frozen=True, kw_only=True):
    """The processors of a machine.

    Attributes:
        threads: How many of them there are.
    """

    name: Processors
    threads: Threads


class MachineHardware(Record, frozen=True, kw_only=True, tag="gpuprov.machine-hardware/v1"):
    """What `python3 -m gpuwork.hardware` prints.

    Attributes:
        simulated: Whether the GPUs are.
        reason: Why CUDA's driver tells nothing.
    """

    machine: HostName
    cpu: Cpu
    gpus: tuple[GpuNumbers, ...]
    simulated: bool
    reason: Reason | None


class Machine(Shape, frozen=True, kw_only=True):
    """The processors and GPUs of a machine.

    Attributes:
        machine: Its name.
        cpu: Name of the processors.
        threads: How many of them there are.
        simulated: Whether the GPUs are.
        reason: Why CUDA's driver tells nothing.
    """

    machine: HostName
    cpu: Processors
    threads: Threads
    gpus: tuple[GpuNumbers, ...]
    simulated: bool
    reason: Reason | None


class NodeHardware(Shape, frozen=True, kw_only=True):
    """What a node has.

    Attributes:
        reason: Why it could not be asked.
    """

    node: HostName
    hardware: Machine | None
    reason: Reason | None


class HostHardware(Shape, frozen=True, kw_only=True):
    """What a host that was added has, and why it did not answer."""

    name: Word
    status: Literal["ready", "away", "error"]
    away_since: Word | None
    error: ErrorParts | None
    hardware: Machine | None


class Hardware(Document, frozen=True, kw_only=True, tag="gpuprov.hardware/v1"):
    """What `gpuprov hardware` prints.

    Attributes:
        host: Name of the host.
        hardware: Of this machine.
        hosts: There where hosts were added.
        error: There where some hosts did not answer.
    """

    host: HostName
    hardware: Machine
    nodes: tuple[NodeHardware, ...]
    hosts: tuple[HostHardware, ...] | UnsetType = UNSET
    error: ErrorParts | UnsetType = UNSET
