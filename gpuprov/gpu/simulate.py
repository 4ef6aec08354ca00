"""A simulated NVML, for machines without a GPU and for tests.

The text of this file is also sent into nodes and run there, so it imports the standard library only.

A document says what the library answers:

    {"driver_version": "580.95.05", "nvml_version": "13.580.95.05", "cuda_driver_version": 13000,
     "missing": ["nvmlDeviceGetMarginTemperature"],     functions that an older library lacks
     "errors": {"nvmlInitWithFlags": 18},               calls that fail, with NVML's code
     "gpus": [{"uuid": ..., "index": 0, "minor": 0, "pci": "0000:51:00.0", "model": ...,
               "memory_bytes": ..., "compute_capability": [9, 0],
               "mig": [{"uuid": ..., "gpu_instance": 1, "compute_instance": 0, "memory_bytes": ...}],  with MIG on
               "answers": {"PowerUsage": 72000},        by function name without `nvmlDeviceGet` and version suffix
               "fields": {"230": 0},                    nvmlDeviceGetFieldValues
               "errors": {"PowerUsage": 15, "*": 15},   the same names, or all
               "series": {"PcieReplayCounter": [0, 3]}, answers one after the other; the last one stays
               "xids": [79], "processes": [{"pid": 1}]}]}

An answer is a number; a list where a call has several results; text; an object with the fields of a struct; or an
object of numbers by the call's other arguments ("0,1"). What has no answer is NotSupported, as on real hardware.
"""

from __future__ import annotations

import copy
import ctypes
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

SUCCESS = 0
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
TIMEOUT = 10
XID_EVENT = 8

Document = dict[str, Any]
Argument = Any  # what pynvml hands to a C function: ctypes numbers, pointers, buffers, structs
Function = Callable[..., Any]  # restype and the like are set on it, as on one of ctypes

_HANDLES_PER_GPU = 64  # one for the GPU, the others for its MIG instances; 0 is no handle
_EVENT_SET = 0x5151
SEED = "51515151"  # of every host before hosts had seeds of their own


def simulated_uuid(index: int, *, seed: str = SEED) -> str:
    """UUID of simulated GPU `index`, the same in every run; `seed` has eight hexadecimal digits."""
    return f"GPU-{seed}-5151-4151-8151-{index:012x}"


def pci_address(index: int) -> str:
    """Address of simulated GPU `index`."""
    return f"0000:{0x51 + index:02x}:00.0"


def simulated_mig_uuid(index: int, part: Document, *, seed: str) -> str:
    """UUID of an instance of simulated GPU `index`, which its two ids tell apart."""
    return f"MIG-{seed}-5151-4151-8151-{index:04x}{part['gpu_instance']:04x}{part['compute_instance']:04x}"


def load_profiles(path: str | Path) -> Document:
    """Read the profiles of known GPUs: name to what a healthy idle one answers."""
    profiles: Document = json.loads(Path(path).read_text(encoding="utf-8"))
    return profiles


def make_document(profiles: Document, *, profile: str, count: int, first_minor: int = 0, seed: str = SEED) -> Document:
    """A host with `count` GPUs of one profile; the model's name says that they are simulated."""
    chosen = profiles["gpus"][profile]
    gpus = [simulated_gpu(chosen, index=index, minor=first_minor + index, seed=seed) for index in range(count)]
    return {**copy.deepcopy(profiles["driver"]), "simulated": True, "gpus": gpus}


def simulated_gpu(known: Document, *, index: int, minor: int, seed: str) -> Document:
    """One GPU that answers like a known one; its model's name says that it is simulated."""
    gpu = copy.deepcopy(known)
    gpu["uuid"] = simulated_uuid(index, seed=seed)
    gpu["index"] = index
    gpu["minor"] = minor
    gpu.setdefault("pci", pci_address(index))
    gpu["model"] = f"SIMULATED {known['model']}"
    for part in gpu.get("mig", []):
        part["uuid"] = simulated_mig_uuid(index, part, seed=seed)
    return gpu


def node_document(document: Document, uuids: list[str] | tuple[str, ...]) -> Document:
    """What NVML answers in a node that was given these GPUs or MIG instances: it sees no other and counts from 0."""
    gpus: list[Document] = []
    for gpu in copy.deepcopy(document["gpus"]):
        leased = [part for part in gpu.get("mig", []) if part["uuid"] in uuids]
        if gpu["uuid"] in uuids or leased:
            gpu["index"] = len(gpus)
            if leased:
                gpu["mig"] = leased
            gpus.append(gpu)
    return {**document, "gpus": gpus}


class SimulatedNvml:
    """Stands in for libnvidia-ml.so.1: `pynvml.nvmlLib = SimulatedNvml(document)`, and pynvml's own calls work."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._users = 0
        self._devices: dict[int, Document] = {}
        self._xids = [(_gpu_handle(n), xid) for n, gpu in enumerate(document["gpus"]) for xid in gpu.get("xids", [])]
        for number, gpu in enumerate(document["gpus"]):
            self._devices[_gpu_handle(number)] = {**gpu, "answers": gpu_answers(gpu)}
            for position, part in enumerate(gpu.get("mig", [])):
                self._devices[_gpu_handle(number) + position + 1] = {**part, "answers": mig_answers(part, gpu)}

    def __getattr__(self, name: str) -> Function:
        """The C function of that name; AttributeError, as from ctypes, where this library has none."""
        if not name.startswith("nvml") or name in self._document.get("missing", []):
            raise AttributeError(name)
        return partial(self._call, name)

    def _call(self, name: str, *arguments: Argument) -> int | bytes:
        if name == "nvmlErrorString":
            return f"simulated NVML error {arguments[0]}".encode()
        failure = int(self._document.get("errors", {}).get(name, SUCCESS))
        return failure or self._answer(name, *arguments)

    def _answer(self, name: str, *arguments: Argument) -> int:
        if name in ("nvmlInit_v2", "nvmlInitWithFlags"):
            self._users += 1
            return SUCCESS
        if self._users == 0:
            return UNINITIALIZED
        short = re.sub(r"_v\d+$", "", name)
        if short in _HANDLERS:
            return int(getattr(self, _HANDLERS[short])(*arguments))
        if short.startswith("nvmlDevice"):
            return self._device_call(re.sub("^nvmlDevice(Get)?", "", short), *arguments)
        return NOT_SUPPORTED

    def _shutdown(self) -> int:
        self._users -= 1
        return SUCCESS

    def _system_text(self, key: str, buffer: Argument, size: Argument) -> int:
        return _put_text(self._document[key], buffer, size)

    def _driver_version(self, buffer: Argument, size: Argument) -> int:
        return self._system_text("driver_version", buffer, size)

    def _nvml_version(self, buffer: Argument, size: Argument) -> int:
        return self._system_text("nvml_version", buffer, size)

    def _cuda_driver_version(self, reference: Argument) -> int:
        target(reference).value = self._document["cuda_driver_version"]
        return SUCCESS

    def _count(self, reference: Argument) -> int:
        target(reference).value = len(self._document["gpus"])
        return SUCCESS

    def _by_index(self, index: Argument, reference: Argument) -> int:
        number = _number(index)
        if number >= len(self._document["gpus"]):
            return INVALID_ARGUMENT
        gpu = self._document["gpus"][number]
        put_handle(reference, _gpu_handle(number))
        return int(gpu.get("errors", {}).get("HandleByIndex", gpu.get("errors", {}).get("*", SUCCESS)))

    def _by_uuid(self, uuid: Argument, reference: Argument) -> int:
        wanted = uuid.value.decode()
        return self._find(reference, lambda device: bool(device["uuid"] == wanted))

    def _by_pci(self, address: Argument, reference: Argument) -> int:
        domain, _, rest = address.value.decode().lower().rjust(16, "0").partition(":")
        wanted = f"{domain[-4:]}:{rest}" if domain.startswith("0000") else ""
        return self._find(reference, lambda device: bool(device.get("pci") == wanted))

    def _find(self, reference: Argument, matches: Argument) -> int:
        for handle, device in self._devices.items():
            if matches(device):
                put_handle(reference, handle)
                return SUCCESS
        return NOT_FOUND

    def _mig_by_index(self, handle: Argument, index: Argument, reference: Argument) -> int:
        wanted = _handle(handle) + _number(index) + 1
        if wanted not in self._devices or _number(index) >= _HANDLES_PER_GPU - 1:
            return NOT_FOUND
        put_handle(reference, wanted)
        return SUCCESS

    def _parent_of_mig(self, handle: Argument, reference: Argument) -> int:
        put_handle(reference, _handle(handle) // _HANDLES_PER_GPU * _HANDLES_PER_GPU)
        return SUCCESS

    def _field_values(self, handle: Argument, count: Argument, reference: Argument) -> int:
        fields = self._devices[_handle(handle)].get("fields", {})
        for value in target(reference)[: _number(count)]:
            known = str(value.fieldId) in fields
            value.nvmlReturn = SUCCESS if known else NOT_SUPPORTED
            value.value.ullVal = fields[str(value.fieldId)] if known else 0
        return SUCCESS

    def _processes(self, handle: Argument, count: Argument, array: Argument) -> int:
        running = self._devices[_handle(handle)].get("processes", [])
        room = target(count).value
        target(count).value = len(running)
        if len(running) > room:
            return INSUFFICIENT_SIZE
        for entry, process in zip(array or [], running, strict=False):
            _put_fields(entry, process)
        return SUCCESS

    def _p2p(self, gpu: Argument, _other: Argument, kind: Argument, reference: Argument) -> int:
        return self._device_call("P2PStatus", gpu, kind, reference)

    def _event_set(self, reference: Argument) -> int:
        put_handle(reference, _EVENT_SET)
        return SUCCESS

    def _succeed(self, *_: Argument) -> int:
        return SUCCESS

    def _event_wait(self, _events: Argument, reference: Argument, _timeout: Argument) -> int:
        if not self._xids:
            return TIMEOUT
        handle, xid = self._xids.pop(0)
        put_handle(reference, handle)  # the device is the first field of the struct
        _put_fields(target(reference), {"eventType": XID_EVENT, "eventData": xid})
        return SUCCESS

    def _device_call(self, name: str, *arguments: Argument) -> int:
        device = self._devices.get(_handle(arguments[0]))
        if device is None:
            return INVALID_ARGUMENT
        errors = device.get("errors", {})
        failure = int(errors.get(name, errors.get("*", SUCCESS)))
        answer = device["answers"].get(name)
        coming = device.get("series", {}).get(name)
        if coming:
            answer = coming.pop(0) if len(coming) > 1 else coming[0]
        if failure or answer is None:
            return failure or NOT_SUPPORTED
        return _put(answer, *arguments[1:])


# Without version suffix, to the method that answers.
_HANDLERS = {
    "nvmlShutdown": "_shutdown",
    "nvmlSystemGetDriverVersion": "_driver_version",
    "nvmlSystemGetNVMLVersion": "_nvml_version",
    "nvmlSystemGetCudaDriverVersion": "_cuda_driver_version",
    "nvmlDeviceGetCount": "_count",
    "nvmlDeviceGetHandleByIndex": "_by_index",
    "nvmlDeviceGetHandleByUUID": "_by_uuid",
    "nvmlDeviceGetHandleByPciBusId": "_by_pci",
    "nvmlDeviceGetMigDeviceHandleByIndex": "_mig_by_index",
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": "_parent_of_mig",
    "nvmlDeviceGetFieldValues": "_field_values",
    "nvmlDeviceGetComputeRunningProcesses": "_processes",
    "nvmlDeviceGetGraphicsRunningProcesses": "_processes",
    "nvmlDeviceGetP2PStatus": "_p2p",
    "nvmlEventSetCreate": "_event_set",
    "nvmlEventSetFree": "_succeed",
    "nvmlEventSetWait": "_event_wait",
    "nvmlDeviceRegisterEvents": "_succeed",
}


def gpu_answers(gpu: Document) -> Document:
    """What a GPU answers, by function name without `nvmlDeviceGet`."""
    domain, bus, rest = gpu["pci"].split(":")
    device = rest.partition(".")[0]
    answers: Document = {
        "Name": gpu["model"],
        "UUID": gpu["uuid"],
        "Index": gpu["index"],
        "MinorNumber": gpu["minor"],
        "PciInfo": {
            "busIdLegacy": gpu["pci"],
            "busId": f"{int(domain, 16):08X}:{bus}:{rest}".upper(),
            "domain": int(domain, 16),
            "bus": int(bus, 16),
            "device": int(device, 16),
        },
        "IsMigDeviceHandle": 0,
    }
    if "memory_bytes" in gpu:
        answers["MemoryInfo"] = _memory(gpu["memory_bytes"])
    if "compute_capability" in gpu:
        answers["CudaComputeCapability"] = gpu["compute_capability"]
    if "mig" in gpu:
        answers["MigMode"] = [1, 1]
        answers["MaxMigDeviceCount"] = max(7, len(gpu["mig"]))
    return {**answers, **gpu.get("answers", {})}


def mig_answers(part: Document, gpu: Document) -> Document:
    """The same of a MIG instance."""
    return {
        "Name": f"{gpu['model']} MIG {part.get('profile', '')}".rstrip(),
        "UUID": part["uuid"],
        "GpuInstanceId": part["gpu_instance"],
        "ComputeInstanceId": part["compute_instance"],
        "MemoryInfo": _memory(part["memory_bytes"]),
        "IsMigDeviceHandle": 1,
    }


def _memory(total_bytes: int) -> Document:
    return {"total": total_bytes, "free": total_bytes, "used": 0, "reserved": 0}


def _gpu_handle(number: int) -> int:
    return (number + 1) * _HANDLES_PER_GPU


def _handle(pointer: Argument) -> int:
    return pointer if isinstance(pointer, int) else ctypes.cast(pointer, ctypes.c_void_p).value or 0


def target(reference: Argument) -> Argument:
    """What byref() points to; an array or buffer is handed over as itself."""
    return getattr(reference, "_obj", reference)


def _number(argument: Argument) -> int:
    return int(argument.value if hasattr(argument, "value") else argument)


def put_handle(reference: Argument, handle: int) -> None:
    """Write a handle where byref() points to."""
    ctypes.memmove(reference, ctypes.byref(ctypes.c_void_p(handle)), ctypes.sizeof(ctypes.c_void_p))


def _put(answer: Argument, *arguments: Argument) -> int:
    """Write an answer where the caller's pointers say; without a pointer the answer is the call's own code."""
    if not arguments:
        return int(answer)
    if isinstance(answer, str):
        return _put_text(answer, *arguments[-2:])
    if isinstance(answer, dict) and isinstance(target(arguments[-1]), ctypes.Structure):
        _put_fields(target(arguments[-1]), answer)
        return SUCCESS
    if isinstance(answer, dict):
        answer = answer.get(",".join(str(_number(argument)) for argument in arguments[:-1]))
        if answer is None:
            return NOT_SUPPORTED
    values = answer if isinstance(answer, list) else [answer]
    for reference, value in zip(arguments[-len(values) :], values, strict=True):
        target(reference).value = value
    return SUCCESS


def _put_text(text: str, buffer: Argument, size: Argument) -> int:
    encoded = text.encode()
    if len(encoded) >= _number(size):
        return INSUFFICIENT_SIZE
    buffer.value = encoded
    return SUCCESS


def _put_fields(struct: Argument, values: Document) -> None:
    names = {field[0] for field in struct._fields_}
    for name, value in values.items():
        if name in names:
            setattr(struct, name, value.encode() if isinstance(value, str) else value)
