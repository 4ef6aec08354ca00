"""Which device the kernels ran on, and the error when there is none."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from smoke_kernels.backend import SIMULATED, cuda
from smoke_kernels.errors import DeviceError


def describe_device() -> dict[str, Any]:
    """Return name, UUID, compute capability, memory and driver version of the current device.

    Raises:
        DeviceError: CUDA finds no GPU, and the simulator was not asked for.
    """
    if SIMULATED:
        return {
            "name": "numba CUDA simulator",
            "uuid": None,
            "compute_capability": None,
            "memory_bytes": None,
            "driver_version": None,
        }
    try:
        device = cuda.get_current_device()
    except Exception as error:  # numba raises several unrelated types here, ImportError and OSError among them
        raise DeviceError(
            "no GPU that CUDA can use",
            evidence=f"numba.cuda: {type(error).__name__}: {' '.join(str(error).split())[:500]}",
            remedy="nvidia-smi; ls -l /dev/nvidia*   (or, without a GPU: python3 -m smoke_kernels matmul --simulate)",
        ) from error
    name = device.name.decode() if isinstance(device.name, bytes) else str(device.name)
    uuid = device.uuid.decode() if isinstance(device.uuid, bytes) else str(device.uuid)
    return {
        "name": name,
        "uuid": uuid,
        "compute_capability": ".".join(str(part) for part in device.compute_capability),
        **_from_nvml(uuid),
    }


def _from_nvml(uuid: str) -> dict[str, Any]:
    """Return what only NVML knows; None for each where NVML does not answer, which is not this program's to judge."""
    facts: dict[str, Any] = {"memory_bytes": None, "driver_version": None}
    with contextlib.suppress(Exception):
        pynvml = importlib.import_module("pynvml")
        pynvml.nvmlInit()
        facts["driver_version"] = pynvml.nvmlSystemGetDriverVersion()
        facts["memory_bytes"] = int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid)).total)
    return facts
