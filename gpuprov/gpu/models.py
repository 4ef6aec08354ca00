"""What is known of a host's GPUs: plain data, gathered by `inventory.observe`, judged by everything else."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.gpu.lost import LostGpu

# File stem to the name that programs load it by. The least that CUDA, NVML and nvidia-smi need.
SONAMES: Final = {
    "libcuda": "libcuda.so.1",
    "libnvidia-cfg": "libnvidia-cfg.so.1",
    "libnvidia-gpucomp": "libnvidia-gpucomp.so.{version}",
    "libnvidia-ml": "libnvidia-ml.so.1",
    "libnvidia-nvvm": "libnvidia-nvvm.so.4",
    "libnvidia-nvvm70": "libnvidia-nvvm70.so.4",
    "libnvidia-ptxjitcompiler": "libnvidia-ptxjitcompiler.so.1",
}
TRIPLETS: Final = ("x86_64-linux-gnu", "aarch64-linux-gnu")
EngineAccess = Literal["cdi", "nvidia-runtime"]  # ways by which an engine hands GPUs in itself
_SEEDED = len("GPU-00000000")  # behind it, the UUIDs of simulated GPUs are the same on every host


@dataclass(frozen=True, kw_only=True)
class MigInstance:
    """One compute instance of a GPU that MIG has split.

    Attributes:
        index: Position among the MIG devices of its GPU, as NVML counts them.
        uuid: `MIG-...`.
        gpu_instance: Id of the GPU instance, which names the capability file `gi<id>`.
        compute_instance: Id of the compute instance within it, `ci<id>`.
        profile: As NVML names it, `1g.10gb`; empty where it does not.
    """

    index: int
    uuid: str
    gpu_instance: int
    compute_instance: int
    memory_bytes: int | None = None
    profile: str = ""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU, or one MIG instance of it (then `uuid` is the instance's and `mig` holds that instance alone).

    Index, minor and PCI address are three different numberings; only the UUID identifies.

    Attributes:
        index: NVML index; people use it, nothing is derived from it.
        minor: The number in /dev/nvidia<minor>.
        pci: `0000:65:00.0`, lower case, four digits of domain.
        memory_bytes: None where neither NVML nor a profile says.
        compute_capability: Such as (9, 0); None where NVML could not be asked.
        mig: Its MIG instances; empty while MIG is off.
        cores: Those of the host that are nearest to it, as slurmd counts them, `0-15,32-47`; empty if unknown.
    """

    index: int
    uuid: str
    minor: int
    pci: str
    model: str
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None
    mig_enabled: bool = False
    mig: tuple[MigInstance, ...] = ()
    cores: str = ""

    @property
    def label(self) -> str:
        """How people name it: `3`, or `3:0` for a MIG instance."""
        return f"{self.index}:{self.mig[0].index}" if self.is_mig_instance else str(self.index)

    @property
    def is_mig_instance(self) -> bool:
        """Whether this is a slice of a GPU."""
        return len(self.mig) == 1 and self.mig[0].uuid == self.uuid


@dataclass(frozen=True, kw_only=True)
class ProcGpu:
    """A GPU as /proc/driver/nvidia/gpus/<pci>/information shows it, without NVML."""

    uuid: str
    minor: int
    pci: str
    model: str


@dataclass(frozen=True, kw_only=True)
class DriverFiles:
    """What the loaded NVIDIA kernel driver shows in /proc and /sys.

    Attributes:
        version: Version of the kernel module.
        uvm_major: Dynamic major of nvidia-uvm since this boot; None while the module is not loaded.
        caps_major: Dynamic major of nvidia-caps; None where the driver has no capabilities.
        caps_minors: `gpu0/gi1/access` and the like to minor, from mig-minors.
        modeset: Whether nvidia-modeset is loaded.
        gpus: Those in /proc that have an identity; none where the driver is silent.
        lost: Those in /proc that have none, and those on the bus that no driver has taken.
        cards: PCI addresses of all NVIDIA GPUs on the bus, whatever drives them.
        excluded: PCI addresses of the GPUs that the driver was told to leave out.
        silent: Why the driver does not tell its GPUs; empty where it does.
        libraries: Host paths of the user-space libraries of any driver version, sorted.
        nvidia_smi: Host path of the program, or None.
    """

    version: str
    uvm_major: int | None = None
    caps_major: int | None = None
    caps_minors: Mapping[str, int] = field(default_factory=dict)
    modeset: bool = False
    gpus: tuple[ProcGpu, ...] = ()
    lost: tuple[LostGpu, ...] = ()
    cards: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    silent: str = ""
    libraries: tuple[str, ...] = ()
    nvidia_smi: str | None = None


@dataclass(frozen=True, kw_only=True)
class HostGpus:
    """All GPUs of a host, real or simulated.

    Attributes:
        reason: Why these: what was found, or why they are simulated.
        driver_version: Of the loaded driver; of the profile when simulated.
        cuda_driver_version: As NVML counts, 12040 for 12.4; None where NVML could not be asked.
        gpus: In NVML order.
        driver: The kernel driver's facts; None where no driver is loaded.
        document: What the simulated NVML answers, for `simulate.SimulatedNvml`; None when real.
        lost: GPUs that are there and cannot be used: nobody is given them.
        offers: Ways by which the engine can hand them in beside raw, the preferred one first, and how that is known.
    """

    simulated: bool
    reason: str
    driver_version: str
    cuda_driver_version: int | None
    gpus: tuple[Gpu, ...]
    driver: DriverFiles | None = None
    document: Mapping[str, Any] | None = None
    lost: tuple[LostGpu, ...] = ()
    offers: Mapping[EngineAccess, str] = field(default_factory=dict)

    def current(self, uuid: str) -> str:
        """The UUID by which this host knows a GPU now.

        A simulated one is the same GPU whatever its UUID begins with: that follows the machine's id, and was the same
        on every machine once.
        """
        known = {unit.uuid[_SEEDED:]: unit.uuid for unit in self.gpus} if self.simulated else {}
        return known.get(uuid[_SEEDED:], uuid)

    @property
    def units(self) -> tuple[Gpu, ...]:
        """What can be leased: each GPU, or each of its MIG instances where MIG is on."""
        units: list[Gpu] = []
        for gpu in self.gpus:
            if gpu.mig_enabled:
                units += [replace(gpu, uuid=part.uuid, memory_bytes=part.memory_bytes, mig=(part,)) for part in gpu.mig]
            else:
                units.append(gpu)
        return tuple(units)
