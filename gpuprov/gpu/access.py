"""By which way GPUs get into a node, and why: pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.device_nodes import plan_device_nodes, plan_simulated_nodes
from gpuprov.gpu.driver_mounts import plan_library_mounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.shapes.node import CharDevice, Mount

CDI_KIND: Final = "nvidia.com/gpu"  # of a device, as engines and CDI files write it
CDI_FILE: Final = "etc/cdi/gpuprov.json"  # gpuprov's own
AccessKind = Literal["none", "raw", "simulated", "cdi", "nvidia-runtime"]


@dataclass(frozen=True, kw_only=True)
class Access:
    """How a node gets its GPUs; devices and mounts are empty where the engine itself sees to them."""

    kind: AccessKind
    reason: str
    devices: tuple[CharDevice, ...] = ()
    mounts: tuple[Mount, ...] = ()


def decide_access(host: HostGpus, gpus: Sequence[Gpu], *, driver_files: bool = False) -> Access:
    """Choose the way in: simulated if the host is, raw wherever it can serve, else what engine and host offer.

    Args:
        host: Its GPUs and driver.
        gpus: The units leased to the node.
        driver_files: Whether the driver's files are wanted even without a GPU; raw alone can do that.

    Raises:
        HostNotReady: No access method is possible; the error says what raw access lacks.
    """
    if not gpus and driver_files and host.driver is not None and not host.simulated:
        mounts = plan_library_mounts(host.driver)
        return Access(kind="none", reason="the node has the driver's files, but no GPU", mounts=mounts)
    if not gpus:
        return Access(kind="none", reason="the node has no GPU")
    if host.simulated:
        devices = plan_simulated_nodes(gpus, driver_loaded=host.driver is not None)
        return Access(kind="simulated", reason=f"SIMULATED: {host.reason}", devices=devices)
    if host.driver is None:
        raise HostNotReady("no NVIDIA driver is loaded", evidence=host.reason, fix="modprobe nvidia && nvidia-smi")
    try:
        devices = plan_device_nodes(gpus, host.driver)
        mounts = plan_library_mounts(host.driver)
    except HostNotReady as lack:
        if not host.offers:
            raise
        kind, known = next(iter(host.offers.items()))
        return Access(kind=kind, reason=f"{known}; raw access is not possible: {lack.what}")
    reason = f"driver {host.driver.version} on the host is sufficient"
    return Access(kind="raw", reason=reason, devices=devices, mounts=mounts)
