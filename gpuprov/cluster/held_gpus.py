"""Which GPUs a node holds, and how, read from its labels and devices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpuprov.drivers.base import LABEL_GPU_CORES, LABEL_GPU_TYPES, LABEL_GPU_UNITS, LABEL_GPUS, LABEL_SHARING
from gpuprov.gpu.device_numbers import paths_of_unit
from gpuprov.gpu.nearest_cores import is_number_list
from gpuprov.gpu.type_name import gpu_type
from gpuprov.shapes.whole import LeasedUnit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuprov.drivers.base import NodeState
    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.shapes.choices import Sharing
    from gpuprov.shapes.node import CharDevice

_BETWEEN: Final = ";"  # lists of cores have commas
_GPU: Final = "/dev/nvidia"
_CAPABILITY: Final = "/dev/nvidia-caps/nvidia-cap"
_UNIT: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9_.+-]{0,39}):([0-9]{1,6})(?::([0-9]{1,6}):([0-9]{1,6}))?", re.ASCII
)  # `h100:0`, `1g.10gb:0:12:13`


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


def held_units(gpus: Sequence[Gpu], devices: tuple[CharDevice, ...], host: HostGpus) -> tuple[LeasedUnit, ...]:
    """What a node holds, one by one; none where all are whole GPUs of one type, or the engine itself hands them in."""
    if not gpu_paths(devices) or not (any(gpu.is_mig_instance for gpu in gpus) or _differ(gpus, devices)):
        return ()
    driver = None if host.simulated else host.driver
    return tuple(
        LeasedUnit(
            uuid=gpu.uuid,
            type=_profile(gpu) or gpu_type(gpu.model, mig=gpu.is_mig_instance),
            devices=paths_of_unit(gpu, driver),
        )
        for gpu in gpus
    )


def _differ(gpus: Sequence[Gpu], devices: tuple[CharDevice, ...]) -> bool:
    return len(set(held_types(gpus, devices))) > 1


def _profile(gpu: Gpu) -> str:
    return gpu.mig[0].profile if gpu.is_mig_instance else ""


def recorded_units(node: NodeState) -> tuple[LeasedUnit, ...]:
    """The same, as recorded with a node; a node of an earlier gpuprov has no such record."""
    uuids = leased_uuids(node)
    found = [_UNIT.fullmatch(told) for told in node.labels.get(LABEL_GPU_UNITS, "").split(",")]
    if len(found) != len(uuids) or not all(found):
        return ()
    return tuple(
        LeasedUnit(
            uuid=uuid,
            type=unit[1],
            devices=(f"{_GPU}{unit[2]}", *(f"{_CAPABILITY}{minor}" for minor in unit.groups()[2:] if minor)),
        )
        for uuid, unit in zip(uuids, filter(None, found), strict=True)
    )


def join_units(units: Iterable[LeasedUnit]) -> str:
    """As the record has them."""
    return ",".join(":".join([unit.type, *map(_minor, unit.devices)]) for unit in units)


def _minor(path: str) -> str:
    return path.removeprefix(_CAPABILITY).removeprefix(_GPU)


def join_cores(lists: Iterable[str]) -> str:
    """As the record has them."""
    return _BETWEEN.join(lists)


def is_gpu_path(path: str) -> bool:
    """Whether it is that of a GPU, `/dev/nvidia0`, and not of a control device."""
    return path.removeprefix("/dev/nvidia").isdecimal()
