"""Which GPUs a node holds, and how, read from its labels and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.drivers.base import LABEL_GPUS, LABEL_SHARING

if TYPE_CHECKING:
    from gpuprov.drivers.base import NodeState
    from gpuprov.spec.devices import CharDevice
    from gpuprov.spec.models import Sharing


def leased_uuids(node: NodeState) -> tuple[str, ...]:
    """UUIDs of the GPUs a node holds."""
    return tuple(uuid for uuid in node.labels.get(LABEL_GPUS, "").split(",") if uuid)


def sharing_of(node: NodeState) -> Sharing:
    """How it holds them; a word that nobody knows is the one that takes them from nobody."""
    return "shared" if node.labels.get(LABEL_SHARING, "shared") == "shared" else "exclusive"


def gpu_paths(devices: tuple[CharDevice, ...]) -> tuple[str, ...]:
    """Paths of the GPUs among a node's devices, `/dev/nvidia0`, in order of minor; control devices are left out."""
    return tuple(device.path for device in sorted(devices, key=lambda device: device.minor) if is_gpu_path(device.path))


def is_gpu_path(path: str) -> bool:
    """Whether it is that of a GPU, `/dev/nvidia0`, and not of a control device."""
    return path.removeprefix("/dev/nvidia").isdecimal()
