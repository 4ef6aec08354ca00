"""Asks CUDA's driver for its GPUs and prints them as JSON; run in a process of its own by `gpuwork.hardware`."""

from __future__ import annotations

import ctypes
import json
import sys
import uuid
from typing import Any, Final

from gpuprov.shapes.limits import MOST_GPUS

_LIBRARY: Final = "libcuda.so.1"
_NAME: Final = 256
# As cuda.h numbers them
ATTRIBUTES: Final = {
    "largest_block": 1,
    "clock_khz": 13,
    "multiprocessors": 16,
    "threads_of_multiprocessor": 39,
    "major": 75,
    "minor": 76,
    "blocks_of_multiprocessor": 106,
}


def main() -> None:
    """Print the GPUs, or why there are none."""
    try:
        told: dict[str, Any] = {"gpus": read_devices(ctypes.CDLL(_LIBRARY))[:MOST_GPUS], "reason": None}
    except (OSError, AttributeError, RuntimeError) as error:
        told = {"gpus": [], "reason": f"CUDA's driver: {error}"}
    sys.stdout.write(json.dumps(told))


def read_devices(cuda: Any) -> list[dict[str, Any]]:  # noqa: ANN401  (a library)
    """The GPUs of a library of CUDA's driver, without those that fail; raises RuntimeError where none is left."""
    _call(cuda, "cuInit", 0)
    count = ctypes.c_int()
    _call(cuda, "cuDeviceGetCount", ctypes.byref(count))
    found, failures = [], []
    for index in range(count.value):
        try:
            found.append(_read(cuda, index))
        except RuntimeError as error:  # noqa: PERF203 - that is the point
            failures.append(error)
    if failures and not found:
        raise failures[0]
    return found


def _read(cuda: Any, index: int) -> dict[str, Any]:  # noqa: ANN401
    device, memory = ctypes.c_int(), ctypes.c_size_t()
    name, unique = ctypes.create_string_buffer(_NAME), ctypes.create_string_buffer(16)
    _call(cuda, "cuDeviceGet", ctypes.byref(device), index)
    _call(cuda, "cuDeviceGetName", name, _NAME, device)
    _call(cuda, "cuDeviceGetUuid", unique, device)
    _call(cuda, "cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    numbers = {}
    for attribute, number in ATTRIBUTES.items():
        value = ctypes.c_int()
        _call(cuda, "cuDeviceGetAttribute", ctypes.byref(value), number, device)
        numbers[attribute] = value.value
    told = {"uuid": f"GPU-{uuid.UUID(bytes=unique.raw)}", "name": name.value.decode(errors="replace")}
    return {**told, "memory_bytes": memory.value, **numbers}


def _call(cuda: Any, name: str, *arguments: Any) -> None:  # noqa: ANN401
    status = getattr(cuda, name)(*arguments)
    if status:
        raise RuntimeError(f"{name} failed with {status}")
