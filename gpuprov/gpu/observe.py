"""Which GPUs this host has, real or simulated, and under which numbers."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.driver_files import find_nvidia_cards, read_driver_files
from gpuprov.gpu.lost import LostGpu, describe_lost, find_lost_gpus
from gpuprov.gpu.models import Gpu, HostGpus, MigInstance
from gpuprov.gpu.nearest_cores import spread_over_cores, with_nearest_cores
from gpuprov.gpu.nvml import LIBRARY_NOT_FOUND, TIMEOUT, NvmlFailed, read_nvml_in_time
from gpuprov.gpu.platform import describe_virtual, find_platform
from gpuprov.gpu.simulate import SEED
from gpuprov.gpu.simulated_gpus import gpus_of
from gpuprov.gpu.simulated_hosts import SOCKETS, SimulatedHost, make_host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gpuprov.gpu.models import DriverFiles
    from gpuprov.gpu.nvml import NvmlReading
    from gpuprov.shapes.choices import GpuMode

__all__ = ["Gpu", "HostGpus", "MigInstance", "observe"]

# Where a driver is loaded, the low minors are real GPUs; a simulated one must never open one of those.
_MINOR_BESIDE_REAL: Final = 128

_SIMULATE = "or, to continue without a GPU: --gpu-mode simulated"
_FIXES: Final = {
    4: "run it as root, or give your user access: ls -l /dev/nvidiactl /dev/nvidia*",
    9: "modprobe nvidia && nvidia-smi    # dmesg | grep NVRM shows why the module does not respond",
    TIMEOUT: "ps -eo pid,stat,wchan:30,args | grep ' D'; dmesg | grep NVRM; if NVML keeps hanging: reboot",
    13: "install a newer driver: its libnvidia-ml lacks a function that every supported version has",
    15: "nvidia-smi --gpu-reset -i <index>, or reboot    # dmesg | grep Xid shows why the GPU fell off the bus",
    16: "nvidia-smi --gpu-reset -i <index>, or reboot",
    18: "reboot    # the driver was upgraded while its old kernel module stayed loaded",
    999: "nvidia-modprobe -u -c0; dmesg | grep NVRM",
}


def observe(
    *,
    root: Path,
    mode: GpuMode,
    simulated_count: int | None = None,
    profile: str = "",
    seed: str = SEED,
    read: Callable[[], NvmlReading] = read_nvml_in_time,
) -> HostGpus:
    """Find the GPUs of a host.

    Args:
        root: Where /proc and /sys are looked up.
        mode: `auto` simulates where there is no driver, and only there.
        simulated_count: How many to simulate; None for as many as the profile has.
        profile: What is simulated: a name, or the file of a recorded host; empty for the usual host.
        seed: What their UUIDs begin with: eight hexadecimal digits, of this host alone.
        read: Asks NVML; tests hand in recorded answers.

    Raises:
        HostNotReady: A driver is there but does not work, mode `real` finds none, or it is unknown how MIG has cut
            simulated ones.
        UsageError: `simulated_count` is out of range, or there is no such profile.
    """
    driver = read_driver_files(root)
    simulated = SimulatedHost(profile=profile, count=simulated_count, seed=seed)
    if mode == "simulated":
        return _simulate(root, simulated, driver=driver, reason="requested by --gpu-mode simulated")
    if driver is not None:
        return _observe_real(root, driver, read)
    cards = find_nvidia_cards(root)
    if cards and (root / "usr/bin/nvidia-smi").exists():
        raise HostNotReady(
            "the NVIDIA driver is installed but not loaded",
            evidence=f"GPU at {', '.join(cards)}; no /proc/driver/nvidia/version",
            fix=f"modprobe nvidia && nvidia-smi; {_SIMULATE}",
        )
    platform = find_platform(root)
    reason = platform.text if platform else "no NVIDIA driver on this host"
    if cards and platform is None:
        reason += f", although it has a GPU at {', '.join(cards)}"
    if mode == "real":
        fix = platform.fix if platform else "install the driver and check it with nvidia-smi"
        raise HostNotReady(
            "no NVIDIA driver is loaded",
            evidence=f"{reason}: no /proc/driver/nvidia/version",
            fix=f"{fix}; {_SIMULATE}",
        )
    return _simulate(root, simulated, driver=None, reason=reason)


def read_seed(root: Path, *, name: str) -> str:
    """What the UUIDs of a host's simulated GPUs begin with: eight digits from its machine id, else from its name."""
    try:
        machine = (root / "etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        machine = ""
    return hashlib.sha256(f"gpuprov {machine or name}".encode()).hexdigest()[: len(SEED)]


def _observe_real(root: Path, driver: DriverFiles, read: Callable[[], NvmlReading]) -> HostGpus:
    if driver.silent:  # NVML would hang as well
        raise HostNotReady(
            "the NVIDIA driver is loaded but does not respond",
            evidence=f"/proc/driver/nvidia/gpus: {driver.silent}; kernel module {driver.version}",
            fix=f"{_FIXES[TIMEOUT]}; {_SIMULATE}",
        )
    try:
        reading = read()
    except NvmlFailed as exc:
        if exc.code == LIBRARY_NOT_FOUND and driver.gpus:
            return _from_proc(driver, root)
        raise _not_ready(exc, driver) from exc
    certain, doubtful = _check_identities(reading.gpus, driver)
    lost = find_lost_gpus(
        driver,
        seen={name for gpu in reading.gpus for name in (gpu.uuid, gpu.pci)},
        unread=reading.lost,
        has_device=lambda minor: (root / f"dev/nvidia{minor}").exists(),
    )
    lost = (*lost, *doubtful)
    if not certain:
        raise _none_works(lost, driver)
    virtual = describe_virtual(root, certain)
    return HostGpus(
        simulated=False,
        reason=f"NVML of driver {reading.driver_version}{'; ' if virtual else ''}{virtual}",
        driver_version=reading.driver_version,
        cuda_driver_version=reading.cuda_driver_version,
        gpus=with_nearest_cores(certain, root),
        driver=driver,
        lost=lost,
    )


def _none_works(lost: Sequence[LostGpu], driver: DriverFiles) -> HostNotReady:
    if not lost:
        return HostNotReady(
            "the NVIDIA driver is loaded but sees no GPU",
            evidence=f"NVML reports 0 GPUs; /proc/driver/nvidia/gpus shows {len(driver.gpus)}",
            fix=f"nvidia-smi; dmesg | grep NVRM; {_SIMULATE}",
        )
    code = next((gpu.code for gpu in lost if gpu.code is not None), None)
    return HostNotReady(
        "the NVIDIA driver is loaded but none of its GPUs can be used",
        evidence=f"{describe_lost(lost, usable=0)}; kernel module {driver.version}",
        fix=f"{fix_of_code(code)}; {_SIMULATE}",
    )


def _from_proc(driver: DriverFiles, root: Path) -> HostGpus:
    """Without NVML: its order is the order of PCI addresses, so the index can still be told."""
    order = sorted({gpu.pci for gpu in driver.gpus} | {gpu.pci for gpu in driver.lost})
    gpus = tuple(
        Gpu(index=order.index(gpu.pci), uuid=gpu.uuid, minor=gpu.minor, pci=gpu.pci, model=gpu.model)
        for gpu in driver.gpus
    )
    return HostGpus(
        simulated=False,
        reason="/proc/driver/nvidia, because libnvidia-ml.so.1 could not be loaded",
        driver_version=driver.version,
        cuda_driver_version=None,
        gpus=with_nearest_cores(gpus, root),
        driver=driver,
        lost=driver.lost,
    )


def _check_identities(gpus: tuple[Gpu, ...], driver: DriverFiles) -> tuple[tuple[Gpu, ...], tuple[LostGpu, ...]]:
    """Those that are certain, and the others.

    A node gets its device by minor and its lease by UUID: a wrong pair would pass the GPU of another node.
    """
    minors = {gpu.uuid: gpu.minor for gpu in driver.gpus}
    places = {gpu.minor: gpu.pci for gpu in driver.gpus}
    counted = Counter(name for gpu in gpus for name in (gpu.uuid, gpu.minor))
    doubtful = [
        gpu
        for gpu in gpus
        if minors.get(gpu.uuid, gpu.minor) != gpu.minor
        or places.get(gpu.minor, gpu.pci) != gpu.pci
        or counted[gpu.uuid] > 1
        or counted[gpu.minor] > 1
    ]
    told = "NVML and the kernel module disagree about which GPU is which: minor {0} in NVML, {1} in /proc"
    lost = [
        LostGpu(
            why=told.format(gpu.minor, minors.get(gpu.uuid, "unknown")), index=gpu.index, pci=gpu.pci, uuid=gpu.uuid
        )
        for gpu in doubtful
    ]
    return tuple(gpu for gpu in gpus if gpu not in doubtful), tuple(lost)


def fix_of_code(code: int | None) -> str:
    """What to do where NVML answers so."""
    return _FIXES.get(code or 0, "nvidia-smi; dmesg | grep NVRM")


def _not_ready(exc: NvmlFailed, driver: DriverFiles) -> HostNotReady:
    libraries = [
        path.rpartition("/")[2] for path in driver.libraries if "libcuda.so" in path or "libnvidia-ml.so" in path
    ]
    return HostNotReady(
        "the NVIDIA driver is loaded but NVML does not work",
        evidence=f"{exc}; kernel module {driver.version}; libraries: {', '.join(libraries) or 'none found'}",
        fix=f"{fix_of_code(exc.code)}; {_SIMULATE}",
    )


def _simulate(root: Path, simulated: SimulatedHost, *, driver: DriverFiles | None, reason: str) -> HostGpus:
    from gpuprov.gpu.simulated_mig import cut, read_state

    document = make_host(simulated, first_minor=_MINOR_BESIDE_REAL if driver is not None else 0)
    cut(document, read_state(root))
    return HostGpus(
        simulated=True,
        reason=f"{reason}; profile {simulated.profile}" if simulated.profile else reason,
        driver_version=document["driver_version"],
        cuda_driver_version=document["cuda_driver_version"],
        gpus=spread_over_cores(gpus_of(document), root, sockets=SOCKETS.get(simulated.profile, 1)),
        driver=driver,
        document=document,
    )
