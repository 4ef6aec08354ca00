"""Which device the kernels run on, and the error when there is none."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any

from smoke_kernels.backend import SIMULATED, cuda
from smoke_kernels.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smoke_kernels.options import Options

_REMEDY = "nvidia-smi; ls -l /dev/nvidia*   (without a GPU: python3 -m smoke_kernels matmul --simulate)"


def each_device(options: Options) -> Iterator[dict[str, Any]]:
    """Make each GPU that the options name the current one, and describe it.

    Raises:
        DeviceError: CUDA finds no such GPU, and the simulator was not asked for.
    """
    if SIMULATED:
        for index, name in enumerate(options.stand_for or (None,)):
            yield {**select_device(0), "index": index, "uuid": name}
        return
    first = select_device(0 if options.all_devices else options.device)
    yield first
    if options.all_devices:
        for index in range(1, len(first["visible"])):
            yield select_device(index)


def select_device(index: int) -> dict[str, Any]:
    """Make the GPU that CUDA lists at `index` the current one and describe it.

    `visible` are the UUIDs of all GPUs that CUDA lists: what the programs of this node can really reach.

    Raises:
        DeviceError: CUDA finds no such GPU, and the simulator was not asked for.
    """
    if SIMULATED:
        return {
            "index": 0,
            "name": "numba CUDA simulator",
            "uuid": None,
            "compute_capability": None,
            "memory_bytes": None,
            "driver_version": None,
            "visible": [],
        }
    try:
        gpus = list(cuda.list_devices())
        if index < len(gpus):
            cuda.select_device(index)
    except Exception as error:  # numba raises unrelated types here, ImportError and OSError among them
        raise DeviceError(
            "CUDA found no usable GPU",
            evidence=f"numba.cuda: {type(error).__name__}: {' '.join(str(error).split())[:500]}",
            remedy=_REMEDY,
        ) from error
    if index >= len(gpus):
        raise DeviceError(
            f"no GPU with index {index}",
            evidence=f"CUDA lists {len(gpus)}: {', '.join(_uuid(gpu) for gpu in gpus) or 'none'}",
            remedy=_REMEDY,
        )
    gpu = gpus[index]
    return {
        "index": index,
        "name": _text(gpu.name),
        "uuid": _uuid(gpu),
        "compute_capability": ".".join(str(part) for part in gpu.compute_capability),
        **_from_nvml(_uuid(gpu)),
        "visible": [_uuid(other) for other in gpus],
    }


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _uuid(gpu: Any) -> str:  # noqa: ANN401  (numba's device; it has no types)
    """Return the UUID with its prefix once: numba adds it to what cuda-core says, which may have it already."""
    return "GPU-" + _text(gpu.uuid).replace("GPU-", "")


def _from_nvml(uuid: str) -> dict[str, Any]:
    """Return what only NVML knows; None for each where NVML does not respond, which is not this program's to judge."""
    facts: dict[str, Any] = {"memory_bytes": None, "driver_version": None}
    with contextlib.suppress(Exception):
        pynvml = importlib.import_module("pynvml")
        pynvml.nvmlInit()
        facts["driver_version"] = _text(pynvml.nvmlSystemGetDriverVersion())
        facts["memory_bytes"] = int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid)).total)
    return facts
