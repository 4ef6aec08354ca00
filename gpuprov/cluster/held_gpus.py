"""Which GPUs a node holds, and how, read from its labels and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuprov.drivers.base import LABEL_GPU_CORES, LABEL_GPU_TYPES, LABEL_GPUS, LABEL_SHARING
from gpuprov.gpu.nearest_cores import is_number_list
from gpuprov.gpu.type_name import gpu_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuprov.drivers.base import NodeState
    from gpuprov.gpu.models import Gpu
    from gpuprov.shapes.choices import Sharing
    from gpuprov.shapes.node import CharDevice

_BETWEEN: Final = ";"  # lists of cores have commas


def leased_uuids(node: NodeState) -> tuple[str, ...]:
    """UUIDs of the GPUs a node holds."""
    return tuple(uuid for uuid in node.labels.get(LABEL_GPUS, "").split(",") if uuid)


def sharing_of(node: NodeState) -> Sharing:
    """How it holds them; a word that nobody knows is the one that takes them from nobody."""
    return "shared" if node.labels.get(LABEL_SHARING, "shared") == "shared" else "exclusive"


def gpu_paths(devices: tuple[CharDevice, ...]) -> tuple[str, ...]:
    """Paths of the GPUs among a node's devices, `/dev/nvidia0`, in order of minor; control devices are left out."""
    return tuple(device.path for device in sorted(devices, key=lambda device: device.minor) if is_gpu_path(device.path))


def held_types(gpus: Sequence[Gpu], devices: tuple[CharDevice, ...]) -> tuple[str, ...]:
    """A short name of the model for each of `gpu_paths`; none where not all have one."""
    names = {f"/dev/nvidia{gpu.minor}": gpu_type(gpu.model, mig=gpu.is_mig_instance) for gpu in gpus}
    found = tuple(names.get(path, "") for path in gpu_paths(devices))
    return found if all(found) else ()


def types_of(node: NodeState) -> tuple[str, ...]:
    """The same, as recorded with a node; a node of an earlier gpuprov has no such record."""
    found = tuple(filter(None, node.labels.get(LABEL_GPU_TYPES, "").split(",")))
    return found if len(found) == len(gpu_paths(node.devices)) else ()


def held_cores(gpus: Sequence[Gpu], devices: tuple[CharDevice, ...]) -> tuple[str, ...]:
    """The cores nearest to each of `gpu_paths`; none where they are not known of all, or are the same for all."""
    lists = {f"/dev/nvidia{gpu.minor}": gpu.cores for gpu in gpus}
    found = tuple(lists.get(path, "") for path in gpu_paths(devices))
    return found if all(found) and len(set(found)) > 1 else ()


def recorded_cores(node: NodeState) -> tuple[str, ...]:
    """The same, as recorded with a node; a node of an earlier gpuprov has no such record."""
    found = tuple(filter(None, node.labels.get(LABEL_GPU_CORES, "").split(_BETWEEN)))
    return found if len(found) == len(gpu_paths(node.devices)) and all(map(is_number_list, found)) else ()


def join_cores(lists: Iterable[str]) -> str:
    """As the record has them."""
    return _BETWEEN.join(lists)


def is_gpu_path(path: str) -> bool:
    """Whether it is that of a GPU, `/dev/nvidia0`, and not of a control device."""
    return path.removeprefix("/dev/nvidia").isdecimal()
