"""The host's GPUs as a specification of the Container Device Interface: pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.access import CDI_KIND
from gpuprov.gpu.device_nodes import plan_device_nodes, plan_simulated_nodes
from gpuprov.gpu.driver_mounts import plan_library_mounts
from gpuprov.shapes.cdi import CdiDevice, CdiEdits, CdiMount, CdiNode, CdiSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.shapes.node import CharDevice

SIMULATED_KIND: Final = "gpuprov.sim/gpu"
_VERSION: Final = "0.5.0"  # the first in which names may begin with a digit, and the last that Debian 12's podman reads
_VOID: Final = "NVIDIA_VISIBLE_DEVICES=void"  # NVIDIA's runtime, where it is there too, adds nothing


def make_cdi_spec(host: HostGpus) -> CdiSpec:
    """Devices by index (`0`, or `0:1` for a MIG instance), by UUID, and `all`.

    Raises:
        HostNotReady: There is no GPU, or the host lacks what its GPUs need.
    """
    units = host.units
    if not units:
        raise HostNotReady("there is no GPU to describe", evidence=host.reason, fix="nvidia-smi -L")
    mounts = () if host.simulated or host.driver is None else plan_library_mounts(host.driver)
    named = [*((unit.label, (unit,)) for unit in units), *((unit.uuid, (unit,)) for unit in units), ("all", units)]
    return CdiSpec(
        cdi_version=_VERSION,
        kind=SIMULATED_KIND if host.simulated else CDI_KIND,
        devices=tuple(
            CdiDevice(name=name, container_edits=CdiEdits(device_nodes=_nodes(host, given, own=True)))
            for name, given in named
        ),
        container_edits=CdiEdits(
            env=(_VOID,),
            device_nodes=_nodes(host, units, own=False),
            mounts=tuple(CdiMount(host_path=one.source, container_path=one.target) for one in mounts),
        ),
    )


def render_cdi_spec(spec: CdiSpec) -> str:
    """What its file has."""
    from msgspec import json

    return f"{json.format(json.encode(spec), indent=2).decode()}\n"


def _nodes(host: HostGpus, units: Sequence[Gpu], *, own: bool) -> tuple[CdiNode, ...]:
    """The nodes of these GPUs themselves, or those that every container with a GPU needs."""
    simulated = host.simulated or host.driver is None
    if host.simulated or host.driver is None:
        devices = plan_simulated_nodes(units, driver_loaded=host.driver is not None)
    else:
        devices = plan_device_nodes(units, host.driver)
    cards = {f"/dev/nvidia{unit.minor}" for unit in units}
    wanted = (one for one in devices if own == (one.path in cards or one.path.startswith("/dev/nvidia-caps/")))
    return tuple(_simulated_node(one) if simulated else CdiNode(path=one.path) for one in wanted)


def _simulated_node(device: CharDevice) -> CdiNode:
    """One that the host does not have in /dev; of a real one the engine looks up the numbers at each start."""
    return CdiNode(path=device.path, type="c", major=device.major, minor=device.minor, file_mode=device.mode)
