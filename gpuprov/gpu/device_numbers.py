"""Paths and numbers of the device nodes that GPUs need: pure functions, for whoever has Python alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.gpu.models import DriverFiles, Gpu

NVIDIA_MAJOR: Final = 195
CTL_MINOR: Final = 255
MODESET_MINOR: Final = 254
# Simulated capabilities are numbered as a driver does it: of a GPU 15 instances, each with 8 of computing
_FIRST_CAPABILITY: Final = 3
_OF_A_GPU: Final = 135
_OF_AN_INSTANCE: Final = 9
_NO_DRIVERS_MINOR: Final = 256  # the driver has those below


@dataclass(frozen=True, kw_only=True)
class DeviceNumbers:
    """A character device, as `shapes.node.CharDevice` tells it to others."""

    path: str
    major: int
    minor: int
    mode: int = 0o666


def number_simulated(gpus: Sequence[Gpu], *, driver_loaded: bool) -> tuple[DeviceNumbers, ...]:
    """Device nodes with no driver behind them: open() says ENXIO where access is granted, EPERM where it is not.

    Beside a loaded driver the control device is left out, because there it is the real one. The capabilities of MIG
    instances have the major of GPUs, with minors that no driver has.
    """
    devices = [_gpu_node(minor) for minor in sorted({gpu.minor for gpu in gpus})]
    if devices and not driver_loaded:
        devices.append(_control_node())
    capabilities = {number for gpu in gpus if gpu.is_mig_instance for number in _simulated_capabilities(gpu)}
    devices += [
        DeviceNumbers(path=_capability_path(number), major=NVIDIA_MAJOR, minor=_NO_DRIVERS_MINOR + number, mode=0o444)
        for number in sorted(capabilities)
    ]
    return tuple(devices)


def paths_of_unit(gpu: Gpu, driver: DriverFiles | None) -> tuple[str, ...]:
    """The device of a GPU; of a MIG instance also its two capabilities. `driver` is None where GPUs are simulated.

    Raises:
        HostNotReady: The driver has no such capability.
    """
    own = (_gpu_node(gpu.minor).path,)
    if not gpu.is_mig_instance:
        return own
    if driver is None:
        return (*own, *map(_capability_path, _simulated_capabilities(gpu)))
    return (*own, *(_capability_node(name, driver).path for name in _capability_names(gpu)))


def number_devices(gpus: Sequence[Gpu], driver: DriverFiles) -> tuple[DeviceNumbers, ...]:
    """Device nodes for GPUs or MIG instances: GPUs, control, modeset if loaded, uvm, and the instances' capabilities.

    Raises:
        HostNotReady: nvidia-uvm or a MIG capability is not there; CUDA would fail in the node while nvidia-smi works.
    """
    if not gpus:
        return ()
    if driver.uvm_major is None:
        raise HostNotReady(
            "the kernel module nvidia-uvm is not loaded",
            evidence="/proc/devices has no line nvidia-uvm; CUDA would fail (cuInit 999) while nvidia-smi works",
            fix="nvidia-modprobe -u -c0",
        )
    devices = [_gpu_node(minor) for minor in sorted({gpu.minor for gpu in gpus})]
    devices.append(_control_node())
    if driver.modeset:
        devices.append(DeviceNumbers(path="/dev/nvidia-modeset", major=NVIDIA_MAJOR, minor=MODESET_MINOR))
    devices.append(DeviceNumbers(path="/dev/nvidia-uvm", major=driver.uvm_major, minor=0))
    devices.append(DeviceNumbers(path="/dev/nvidia-uvm-tools", major=driver.uvm_major, minor=1))
    capabilities = {name for gpu in gpus if gpu.is_mig_instance for name in _capability_names(gpu)}
    devices += [_capability_node(name, driver) for name in sorted(capabilities)]
    return tuple(devices)


def _gpu_node(minor: int) -> DeviceNumbers:
    return DeviceNumbers(path=f"/dev/nvidia{minor}", major=NVIDIA_MAJOR, minor=minor)


def _control_node() -> DeviceNumbers:
    return DeviceNumbers(path="/dev/nvidiactl", major=NVIDIA_MAJOR, minor=CTL_MINOR)


def _capability_path(number: int) -> str:
    return f"/dev/nvidia-caps/nvidia-cap{number}"


def _simulated_capabilities(gpu: Gpu) -> tuple[int, int]:
    """Of the GPU instance, and of the compute instance in it."""
    part = gpu.mig[0]
    instance = _FIRST_CAPABILITY + gpu.minor * _OF_A_GPU + part.gpu_instance * _OF_AN_INSTANCE
    return instance, instance + 1 + part.compute_instance


def _capability_names(gpu: Gpu) -> tuple[str, str]:
    """Names in mig-minors; `gpu<N>` there counts minors, as NVIDIA's container toolkit takes it, not indexes."""
    part = gpu.mig[0]
    instance = f"gpu{gpu.minor}/gi{part.gpu_instance}"
    return f"{instance}/access", f"{instance}/ci{part.compute_instance}/access"


def _capability_node(name: str, driver: DriverFiles) -> DeviceNumbers:
    minor = driver.caps_minors.get(name)
    if minor is None or driver.caps_major is None:
        raise HostNotReady(
            f"the driver has no capability {name} for a MIG instance",
            evidence=f"nvidia-caps major: {driver.caps_major}; mig-minors has {len(driver.caps_minors)} entries",
            fix="nvidia-smi mig -lci; ls /proc/driver/nvidia/capabilities; modprobe nvidia",
        )
    return DeviceNumbers(path=_capability_path(minor), major=driver.caps_major, minor=minor, mode=0o444)
