"""What NVML is asked about a GPU; runs inside a node, so it imports the standard library only and is handed pynvml."""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

NVLINKS_MOST = 36  # NVML_NVLINK_MAX_LINKS in nvml.h of CUDA 13
GPU_MAX_THRESHOLD = 3  # NVML_TEMPERATURE_THRESHOLD_GPU_MAX
RECOVERY_ACTION = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
TIMED_OUT = 10
FUNCTION_NOT_FOUND = 13
MOST_XIDS = 240

Facts = dict[str, Any]


def questions(pynvml: Any, gpu: Any) -> dict[str, Callable[[], Any]]:  # noqa: ANN401 - a module and a handle without types
    """What NVML is asked about each GPU, by the names that the checks use."""
    return {
        "ecc_mode": lambda: list(pynvml.nvmlDeviceGetEccMode(gpu)),
        "ecc_corrected": lambda: pynvml.nvmlDeviceGetTotalEccErrors(gpu, 0, 0),
        "ecc_uncorrected": lambda: pynvml.nvmlDeviceGetTotalEccErrors(gpu, 1, 0),
        "ecc_sram_exceeded": lambda: sram_exceeded(pynvml, gpu),
        "retired_pending": lambda: pynvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu),
        "row_remap": lambda: list(pynvml.nvmlDeviceGetRemappedRows(gpu)),
        "recovery_action": lambda: field_value(pynvml, gpu, RECOVERY_ACTION),
        "inforom": lambda: pynvml.nvmlDeviceValidateInforom(gpu),
        "clock_reasons": lambda: throttle_reasons(pynvml, gpu),
        "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(gpu, 0),
        "temperature_max_c": lambda: pynvml.nvmlDeviceGetTemperatureThreshold(gpu, GPU_MAX_THRESHOLD),
        "temperature_margin_c": lambda: pynvml.nvmlDeviceGetMarginTemperature(gpu),
        "power_limit_mw": lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu),
        "power_default_mw": lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu),
        "pcie_width": lambda: pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),
        "pcie_width_max": lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(gpu),
        "pcie_generation_max": lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
        "pcie_replay": lambda: pynvml.nvmlDeviceGetPcieReplayCounter(gpu),
        "nvlinks": lambda: nvlink_states(pynvml, gpu),
        "fabric": lambda: fabric_info(pynvml, gpu),
        "persistence": lambda: pynvml.nvmlDeviceGetPersistenceMode(gpu),
        "compute_mode": lambda: pynvml.nvmlDeviceGetComputeMode(gpu),
        "mig_mode": lambda: list(pynvml.nvmlDeviceGetMigMode(gpu)),
        "processes": lambda: list_processes(pynvml, gpu),
    }


def answer(pynvml: Any, question: Callable[[], Any]) -> Facts:  # noqa: ANN401 - a module without types
    """The value, or NVML's code for why there is none; a pynvml older than the question is as an older library."""
    try:
        return {"value": question()}
    except pynvml.NVMLError as error:
        return {"code": int(error.value), "text": str(error)}
    except AttributeError as error:
        return {"code": FUNCTION_NOT_FOUND, "text": str(error)}


def sram_exceeded(pynvml: Any, gpu: Any) -> bool:  # noqa: ANN401 - as above
    """Whether errors in the caches exceed the GPU's threshold."""
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    pynvml.nvmlDeviceGetSramEccErrorStatus(gpu, ctypes.byref(status))
    return bool(status.bThresholdExceeded)


def field_value(pynvml: Any, gpu: Any, number: int) -> int:  # noqa: ANN401 - as above
    """One whole number that has no call of its own; its low 32 bits are the same for every type that it may have."""
    found = pynvml.nvmlDeviceGetFieldValues(gpu, [number])[0]
    if found.nvmlReturn:
        raise pynvml.NVMLError(found.nvmlReturn)
    return int(found.value.uiVal)


def nvlink_states(pynvml: Any, gpu: Any) -> list[int]:  # noqa: ANN401 - as above
    """1 or 0 for each link that this GPU has; raises NVMLError where it has none."""
    states: list[int] = []
    try:
        for link in range(NVLINKS_MOST):
            states.append(int(pynvml.nvmlDeviceGetNvLinkState(gpu, link)))  # noqa: PERF401 - some count when one fails
    except pynvml.NVMLError as error:
        if not states or error.value not in (INVALID_ARGUMENT, NOT_SUPPORTED):
            raise
    return states


def fabric_info(pynvml: Any, gpu: Any) -> Facts:  # noqa: ANN401 - as above
    """How far the GPU has come in joining an NVSwitch fabric, with which result, and the bits of its health there."""
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
    return {"state": int(info.state), "status": int(info.status), "health": int(info.healthMask)}


def list_processes(pynvml: Any, gpu: Any) -> list[Facts]:  # noqa: ANN401 - as above
    """Who computes on it, and whether this node knows the process."""
    pids = [int(process.pid) for process in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)]
    return [{"pid": pid, "here": pid > 0 and Path(f"/proc/{pid}").exists()} for pid in pids]


def ask_p2p(pynvml: Any, gpus: list[Any]) -> list[Facts]:  # noqa: ANN401 - as above
    """Whether each pair of GPUs may read each other's memory; pynvml's own constant for that question is a tuple."""
    found = []
    for number, first in enumerate(gpus):
        for other in range(number + 1, len(gpus)):
            said = answer(pynvml, lambda one=first, two=gpus[other]: pynvml.nvmlDeviceGetP2PStatus(one, two, 0))  # type: ignore[misc]
            found.append({"pair": [number, other], **said})
    return found


def list_gpus(pynvml: Any, count: int) -> tuple[list[Any], list[Facts], list[Facts]]:  # noqa: ANN401 - as above
    """Handles and names of the GPUs that NVML tells, and why the others cannot be read."""
    handles: list[Any] = []
    gpus: list[Facts] = []
    lost: list[Facts] = []
    for index in range(count):
        call = f"nvmlDeviceGetHandleByIndex({index})"
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            call = f"nvmlDeviceGetUUID({index})"
            uuid = text(pynvml.nvmlDeviceGetUUID(handle))
            call = f"nvmlDeviceGetName({index})"
            name = text(pynvml.nvmlDeviceGetName(handle))
        except pynvml.NVMLError as error:
            lost.append({"index": index, "call": call, "code": int(error.value), "text": str(error)})
            continue
        pci = answer(pynvml, lambda gpu=handle: text(pynvml.nvmlDeviceGetPciInfo(gpu).busId))  # type: ignore[misc]
        mig = list_mig(pynvml, handle)
        gpus.append({"index": index, "uuid": uuid, "name": name, "pci": pci.get("value", ""), "mig": mig})
        handles.append(handle)
    return handles, gpus, lost


def list_mig(pynvml: Any, handle: Any) -> list[str]:  # noqa: ANN401 - a module and a handle without types
    """UUIDs of the MIG instances of a GPU; none where MIG is off or unknown to it."""
    found: list[str] = []
    with contextlib.suppress(pynvml.NVMLError):
        if pynvml.nvmlDeviceGetMigMode(handle)[0] == 0:
            return found
        for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            with contextlib.suppress(pynvml.NVMLError):
                found.append(text(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))))
    return found


def text(value: Any) -> str:  # noqa: ANN401 - bytes in old versions of pynvml
    """Text of what pynvml returns."""
    return value.decode() if isinstance(value, bytes) else str(value)


def throttle_reasons(pynvml: Any, handle: Any) -> int:  # noqa: ANN401 - a module and a handle without types
    """Bits that say what holds the clocks down; libraries before R535 know them by another name."""
    try:
        return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except pynvml.NVMLError_FunctionNotFound:
        return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def watch_xids(pynvml: Any, gpus: list[Any]) -> Any:  # noqa: ANN401 - a module, handles and an event set without types
    """An event set that the driver fills with the errors of these GPUs."""
    events = pynvml.nvmlEventSetCreate()
    for gpu in gpus:
        pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventTypeXidCriticalError, events)
    return events


def take_xids(pynvml: Any, events: Any) -> list[Facts]:  # noqa: ANN401 - as above
    """The errors that have come in; the wait for the next one ends at once."""
    found: list[Facts] = []
    while len(found) < MOST_XIDS:
        try:
            event = pynvml.nvmlEventSetWait_v2(events, 1)
        except pynvml.NVMLError as error:
            if error.value == TIMED_OUT:
                break
            raise
        uuid = answer(pynvml, lambda gpu=event.device: text(pynvml.nvmlDeviceGetUUID(gpu)))  # type: ignore[misc]
        found.append({"uuid": uuid.get("value", "a lost GPU"), "xid": int(event.eventData)})
    return found
