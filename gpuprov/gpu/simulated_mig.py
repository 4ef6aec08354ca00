"""A simulated NVML that can be told to cut its GPUs, and what of that outlasts a run.

As on a real host, what was cut is whole again after a reboot: the state is a file in /run.
"""

from __future__ import annotations

import ctypes
import json
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import HostNotReady
from gpuprov.gpu.simulate import (
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    SimulatedNvml,
    put_handle,
    simulated_mig_uuid,
    target,
)

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.gpu.simulate import Argument, Document

STATE: Final = "run/gpuprov/simulated-mig.json"  # below the host's root
_IN_USE: Final = 19
_INSUFFICIENT_RESOURCES: Final = 23
_SLICES: Final = 7  # of computing; of memory there are eight
_MIB: Final = 2**20
_RESERVED_MIB: Final = 256  # of each part, for the driver
_GI, _CI = 1 << 20, 1 << 21  # handles, which no GPU has
_SEED: Final = slice(len("GPU-"), len("GPU-") + 8)
# As drivers list them: number of the profile, its id, slices of computing, most of them, eighths of the memory, places
_PROFILES: Final = (
    (0, 19, 1, 7, 1, (0, 1, 2, 3, 4, 5, 6)),
    (7, 20, 1, 1, 1, (0, 1, 2, 3, 4, 5, 6)),
    (9, 15, 1, 4, 2, (0, 2, 4, 6)),
    (1, 14, 2, 3, 2, (0, 2, 4)),
    (2, 9, 3, 2, 4, (0, 4)),
    (3, 5, 4, 1, 4, (0,)),
    (4, 0, 7, 1, 8, (0,)),
)
# By a part of the model's name: the id on the PCI bus, and for each of _PROFILES its name and MiB
_MODELS: Final = {
    "A100-SXM4-40GB": (0x20B010DE, "1g.5gb 1g.5gb+me 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
    "H100 80GB HBM3": (0x233010DE, "1g.10gb 1g.10gb+me 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
}


class SimulatedMig(SimulatedNvml):
    """The library, as a state machine: modes, GPU instances at their places, and their compute instances."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self._gpus: list[Document] = document["gpus"]
        for gpu in self._gpus:
            if "mig" in gpu and find_model(gpu["model"]):
                _complete(gpu)

    def _answer(self, name: str, *arguments: Argument) -> int:
        served = _HANDLERS.get(name)
        return int(getattr(self, served)(*arguments)) if served and self._users else super()._answer(name, *arguments)

    def _gpu(self, handle: Argument) -> Document:
        return self._gpus[_value(handle) // 64 - 1]

    def _pci(self, handle: Argument, reference: Argument) -> int:
        code = super()._answer("nvmlDeviceGetPciInfo", handle, reference)
        known = find_model(self._gpu(handle)["model"])
        target(reference).pciDeviceId = known[0] if known else 0
        return code

    def _get_mode(self, handle: Argument, current: Argument, pending: Argument) -> int:
        gpu = self._gpu(handle)
        if not find_model(gpu["model"]):
            return NOT_SUPPORTED
        target(current).value = int("mig" in gpu)
        target(pending).value = int(gpu.get("mig_pending", "mig" in gpu))
        return SUCCESS

    def _set_mode(self, handle: Argument, mode: Argument, status: Argument) -> int:
        gpu, wanted = self._gpu(handle), bool(_value(mode))
        if not find_model(gpu["model"]):
            return NOT_SUPPORTED
        if gpu.get("mig") or gpu.get("processes"):
            return _IN_USE
        target(status).value = SUCCESS
        if gpu.get("mig_reset"):  # a GPU that takes the mode at its next reset
            gpu["mig_pending"] = wanted
        elif wanted:
            gpu.setdefault("mig", [])
        else:
            gpu.pop("mig", None)
        return SUCCESS

    def _profile(self, handle: Argument, number: Argument, reference: Argument) -> int:
        found = next((one for one in _profiles_of(self._gpu(handle)) if one["number"] == _value(number)), None)
        if found is None:
            return NOT_SUPPORTED
        told = {
            "id": found["id"],
            "sliceCount": found["slices"],
            "instanceCount": found["most"],
            "memorySizeMB": found["mib"],
            "name": f"MIG {found['name']}".encode(),
        }
        for field, value in told.items():
            setattr(target(reference), field, value)
        return SUCCESS

    def _places(self, handle: Argument, profile: Argument, array: Argument, count: Argument) -> int:
        gpu = self._gpu(handle)
        found = _by_id(gpu, _value(profile))
        if found is None or "mig" not in gpu:
            return NOT_SUPPORTED if "mig" not in gpu else INVALID_ARGUMENT
        for place, start in zip(array, found["starts"], strict=False):
            place.start, place.size = start, found["size"]
        target(count).value = len(found["starts"])
        return SUCCESS

    def _create_part(self, handle: Argument, profile: Argument, place: Argument, reference: Argument) -> int:
        gpu = self._gpu(handle)
        found = _by_id(gpu, _value(profile))
        if found is None or "mig" not in gpu:
            return NOT_SUPPORTED if "mig" not in gpu else INVALID_ARGUMENT
        start, size = target(place).start, target(place).size
        if start not in found["starts"] or size != found["size"]:
            return INVALID_ARGUMENT
        taken = {slice_ for part in gpu["mig"] for slice_ in range(part["start"], part["start"] + part["size"])}
        alike = sum(part["profile"] == found["name"] for part in gpu["mig"])
        computing = sum(_by_name(gpu, part["profile"])["slices"] for part in gpu["mig"])
        if taken & set(range(start, start + size)) or alike >= found["most"] or computing + found["slices"] > _SLICES:
            return _INSUFFICIENT_RESOURCES
        number = min(set(range(1, 15)) - {part["gpu_instance"] for part in gpu["mig"]})
        gpu["mig"].append(_part(gpu, found, number, start))
        put_handle(reference, _GI + _number_of(gpu, self._gpus) * 64 + number)
        return SUCCESS

    def _list_parts(self, handle: Argument, profile: Argument, array: Argument, count: Argument) -> int:
        gpu = self._gpu(handle)
        found = _by_id(gpu, _value(profile))
        mine = [part for part in gpu.get("mig", []) if found and part["profile"] == found["name"]]
        first = _GI + _number_of(gpu, self._gpus) * 64
        return _put_handles(array, count, [first + part["gpu_instance"] for part in mine])

    def _find_part(self, handle: Argument) -> tuple[Document, Document]:
        number = _value(handle) & 0xFFFFF
        gpu = self._gpus[number // 64]
        return gpu, next((part for part in gpu.get("mig", []) if part["gpu_instance"] == number % 64), {})

    def _part_info(self, handle: Argument, reference: Argument) -> int:
        _, part = self._find_part(handle)
        if not part:
            return INVALID_ARGUMENT
        target(reference).id = part["gpu_instance"]
        target(reference).placement.start, target(reference).placement.size = part["start"], part["size"]
        return SUCCESS

    def _destroy_part(self, handle: Argument) -> int:
        gpu, part = self._find_part(handle)
        if not part or part["computes"]:
            return _IN_USE if part else NOT_FOUND
        gpu["mig"].remove(part)
        return SUCCESS

    def _compute_profile(self, handle: Argument, number: Argument, engine: Argument, reference: Argument) -> int:
        gpu, part = self._find_part(handle)
        slices = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7}.get(_value(number), 8)
        if not part or _value(engine) or slices > _by_name(gpu, part["profile"])["slices"]:
            return NOT_SUPPORTED
        target(reference).id, target(reference).sliceCount = _value(number), slices
        return SUCCESS

    def _create_compute(self, handle: Argument, _profile: Argument, reference: Argument) -> int:
        _, part = self._find_part(handle)
        if not part or part["computes"]:
            return _INSUFFICIENT_RESOURCES if part else INVALID_ARGUMENT
        part["computes"] = True
        put_handle(reference, _CI + (_value(handle) & 0xFFFFF))
        return SUCCESS

    def _list_computes(self, handle: Argument, profile: Argument, array: Argument, count: Argument) -> int:
        gpu, part = self._find_part(handle)
        slices = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}[_by_name(gpu, part["profile"])["slices"]]
        whole = part["computes"] and slices == _value(profile)
        return _put_handles(array, count, [_CI + (_value(handle) & 0xFFFFF)] if whole else [])

    def _destroy_compute(self, handle: Argument) -> int:
        _, part = self._find_part(handle)
        part["computes"] = False
        return SUCCESS


_HANDLERS: Final = {
    "nvmlDeviceGetPciInfo_v3": "_pci",
    "nvmlDeviceGetMigMode": "_get_mode",
    "nvmlDeviceSetMigMode": "_set_mode",
    "nvmlDeviceGetGpuInstanceProfileInfoV": "_profile",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": "_places",
    "nvmlDeviceCreateGpuInstanceWithPlacement": "_create_part",
    "nvmlDeviceGetGpuInstances": "_list_parts",
    "nvmlGpuInstanceGetInfo": "_part_info",
    "nvmlGpuInstanceDestroy": "_destroy_part",
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": "_compute_profile",
    "nvmlGpuInstanceCreateComputeInstance": "_create_compute",
    "nvmlGpuInstanceGetComputeInstances": "_list_computes",
    "nvmlComputeInstanceDestroy": "_destroy_compute",
}


def find_model(model: str) -> tuple[int, str] | None:
    """The id and the profiles of a model that can be cut; None of one that cannot, or of which nobody has told us."""
    return next((known for name, known in _MODELS.items() if name in model), None)


def read_state(root: Path) -> dict[str, Document]:
    """What was cut since boot: by the UUID of the whole GPU its model, and `gpu_instance` and so on of its parts.

    Raises:
        HostNotReady: The file is not as it was written.
    """
    path = root / STATE
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return {
            str(gpu): {"model": str(one["model"]), "mig": [_checked(part) for part in one["mig"]]}
            for gpu, one in told.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise HostNotReady(
            f"/{STATE} does not say how the SIMULATED GPUs are cut",
            evidence=f"{type(error).__name__}: {error}",
            fix=f"sudo rm /{STATE}    # they are whole then",
        ) from error


def render_state(document: Document) -> str:
    """The same, to be written."""
    return json.dumps(
        {gpu["uuid"]: {"model": gpu["model"], "mig": gpu["mig"]} for gpu in document["gpus"] if "mig" in gpu}
    )


def cut(document: Document, state: dict[str, Document]) -> None:
    """Have the GPUs of a document be cut as the state says; those of another model than then are whole."""
    for gpu in document["gpus"]:
        known = state.get(gpu["uuid"])
        if known and known["model"] == gpu["model"]:
            gpu["mig"] = known["mig"]
            gpu.get("answers", {}).pop("MigMode", None)  # that of one that is whole


def _checked(part: Document) -> Document:
    numbers = {key: int(part[key]) for key in ("gpu_instance", "compute_instance", "memory_bytes", "start", "size")}
    texts = {key: str(part[key]) for key in ("uuid", "profile")}
    return {**numbers, **texts, "computes": bool(part["computes"])}


def _complete(gpu: Document) -> None:
    """Give the parts of a profile's or a record's GPU what is not on record: their profile and place."""
    for part in gpu["mig"]:
        if "profile" not in part:
            mib = part["memory_bytes"] // _MIB
            near = min(_profiles_of(gpu), key=lambda one: abs(one["mib"] - mib))
            taken = {other["start"] for other in gpu["mig"] if "start" in other}
            start = next((start for start in near["starts"] if start not in taken), 0)
            part |= {"profile": near["name"], "start": start, "size": near["size"], "computes": True}


def _profiles_of(gpu: Document) -> list[dict[str, Any]]:
    known = find_model(gpu["model"])
    return [
        {"number": number, "id": ident, "slices": slices, "most": most, "size": size, "starts": starts}
        | {"name": name, "mib": gpu["memory_bytes"] * size // 8 // _MIB - _RESERVED_MIB}
        for (number, ident, slices, most, size, starts), name in zip(
            _PROFILES, known[1].split() if known else (), strict=False
        )
    ]


def _by_id(gpu: Document, profile: int) -> dict[str, Any] | None:
    return next((one for one in _profiles_of(gpu) if one["id"] == profile), None)


def _by_name(gpu: Document, profile: str) -> dict[str, Any]:
    return next(one for one in _profiles_of(gpu) if one["name"] == profile)


def _part(gpu: Document, profile: dict[str, Any], number: int, start: int) -> Document:
    ids = {"gpu_instance": number, "compute_instance": 0}
    return {
        **ids,
        "uuid": simulated_mig_uuid(gpu["index"], ids, seed=gpu["uuid"][_SEED]),
        "memory_bytes": profile["mib"] * _MIB,
        "profile": profile["name"],
        "start": start,
        "size": profile["size"],
        "computes": False,
    }


def _number_of(gpu: Document, gpus: list[Document]) -> int:
    return next(number for number, one in enumerate(gpus) if one is gpu)


def _put_handles(array: Argument, count: Argument, handles: list[int]) -> int:
    if len(handles) > len(array):
        return INSUFFICIENT_SIZE
    for number, handle in enumerate(handles):
        array[number] = ctypes.cast(handle, type(array[0]))
    target(count).value = len(handles)
    return SUCCESS


def _value(argument: Argument) -> int:
    """A number, or what a handle points to."""
    if isinstance(argument, int):
        return argument
    if hasattr(argument, "value"):
        return int(argument.value)
    return ctypes.cast(argument, ctypes.c_void_p).value or 0
