"""The exact device nodes that a node needs for its GPUs, and which of them the host lacks: pure functions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from gpuprov.gpu.device_numbers import number_devices, number_simulated
from gpuprov.shapes.node import CharDevice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.gpu.device_numbers import DeviceNumbers
    from gpuprov.gpu.models import DriverFiles, Gpu


@dataclass(frozen=True, kw_only=True)
class NodeStat:
    """What stat() says of a path in /dev."""

    kind: Literal["char", "other"]
    major: int
    minor: int


def plan_simulated_nodes(gpus: Sequence[Gpu], *, driver_loaded: bool) -> tuple[CharDevice, ...]:
    """As `number_simulated`, as a node is requested."""
    return tuple(map(_device, number_simulated(gpus, driver_loaded=driver_loaded)))


def plan_device_nodes(gpus: Sequence[Gpu], driver: DriverFiles) -> tuple[CharDevice, ...]:
    """As `number_devices`, as a node is requested; raises what that raises."""
    return tuple(map(_device, number_devices(gpus, driver)))


def find_wrong_nodes(devices: Sequence[CharDevice], found: Mapping[str, NodeStat]) -> tuple[str, ...]:
    """One line for each device whose node on the host is absent or another one, as an earlier boot's nvidia-uvm."""
    wrong = []
    for device in devices:
        node = found.get(device.path)
        wanted = f"{device.major}:{device.minor}"
        if node is None:
            wrong.append(f"{device.path} is missing (expected {wanted})")
        elif node.kind != "char":
            wrong.append(f"{device.path} is not a character device (expected {wanted})")
        elif (node.major, node.minor) != (device.major, device.minor):
            wrong.append(f"{device.path} is {node.major}:{node.minor} (expected {wanted})")
    return tuple(wrong)


def _device(numbers: DeviceNumbers) -> CharDevice:
    return CharDevice(**asdict(numbers))
