"""What a worker says of its machine: processors, memory, and its GPU where NVML is there."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any, Final

_MEMINFO: Final = Path("/proc/meminfo")
_KIB: Final = 1024


def describe_machine(gpu: str) -> dict[str, Any]:
    """The node of this process and its GPU, as JSON."""
    gpus, reason = _list_gpus(gpu)
    return {
        "node": platform.node(),
        "cpus": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "memory": _read_memory(),
        "gpus": gpus,
        "reason": reason,
    }


def _read_memory() -> dict[str, int]:
    """Bytes in all, and how many of these a program can have."""
    pairs = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines() if ":" in line)
    kib = {name: int(pairs[name].split()[0]) for name in ("MemTotal", "MemAvailable")}
    return {"total_bytes": kib["MemTotal"] * _KIB, "available_bytes": kib["MemAvailable"] * _KIB}


def _list_gpus(gpu: str) -> tuple[list[dict[str, Any]], str | None]:
    """The GPU of this worker as NVML has it, or why it is not here."""
    try:
        import pynvml
    except ImportError as error:
        return [], f"pynvml is not installed: {error}"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return [], f"NVML does not answer: {error}"
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(gpu)
        memory, name = pynvml.nvmlDeviceGetMemoryInfo(handle), pynvml.nvmlDeviceGetName(handle)
        name = name.decode() if isinstance(name, bytes) else name
        told = {"uuid": gpu, "name": name, "memory_bytes": int(memory.total), "memory_used_bytes": int(memory.used)}
    except pynvml.NVMLError as error:
        return [], f"NVML does not know {gpu}: {error}"
    finally:
        pynvml.nvmlShutdown()
    return [told], None
