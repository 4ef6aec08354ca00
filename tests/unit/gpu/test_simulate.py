"""Pynvml's own calls on the simulated library, as a verifier in a node makes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from gpuprov.gpu import simulate
from gpuprov.gpu.simulate import SimulatedNvml, load_profiles, make_document, node_document

if TYPE_CHECKING:
    from collections.abc import Iterator

Recorded = Callable[[str], Any]
PROFILES = Path(simulate.__file__).with_name("profiles.json")


@pytest.fixture
def use() -> Iterator[Callable[[dict[str, Any]], None]]:
    """Put a document behind pynvml, initialised."""

    def put(library: SimulatedNvml | None) -> None:
        pynvml.nvmlLib = library
        pynvml._nvmlGetFunctionPointer_cache.clear()

    def start(document: dict[str, Any]) -> None:
        put(SimulatedNvml(document))
        pynvml.nvmlInit()

    yield start
    put(None)


Use = Callable[[dict[str, Any]], None]


def host(profile: str = "h100-sxm-80gb", count: int = 2) -> dict[str, Any]:
    return make_document(load_profiles(PROFILES), profile=profile, count=count)


def test_identity(use: Use) -> None:
    use(host())
    assert pynvml.nvmlDeviceGetCount() == 2
    first, second = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))
    assert pynvml.nvmlDeviceGetUUID(second) == "GPU-51515151-5151-4151-8151-000000000001"
    assert pynvml.nvmlDeviceGetName(first) == "SIMULATED NVIDIA H100 80GB HBM3"
    assert pynvml.nvmlDeviceGetMinorNumber(second) == 1
    assert pynvml.nvmlDeviceGetIndex(second) == 1
    assert pynvml.nvmlDeviceGetCudaComputeCapability(first) == (9, 0)
    info = pynvml.nvmlDeviceGetPciInfo(second)
    assert (info.busId, info.bus, info.device, info.domain) == ("00000000:52:00.0", 0x52, 0, 0)
    assert pynvml.nvmlSystemGetDriverVersion() == "580.95.05"
    assert pynvml.nvmlSystemGetNVMLVersion() == "13.580.95.05"
    assert pynvml.nvmlSystemGetCudaDriverVersion() == 13000
    assert pynvml.nvmlSystemGetCudaDriverVersion_v2() == 13000


def test_handles_by_other_names(use: Use) -> None:
    use(host())
    for handle in (
        pynvml.nvmlDeviceGetHandleByUUID("GPU-51515151-5151-4151-8151-000000000001"),
        pynvml.nvmlDeviceGetHandleByPciBusId("00000000:52:00.0"),
        pynvml.nvmlDeviceGetHandleByPciBusId("0000:52:00.0"),
    ):
        assert pynvml.nvmlDeviceGetIndex(handle) == 1
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID("GPU-nobody")
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByPciBusId("00000001:52:00.0")
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetHandleByIndex(2)


def test_readings(use: Use) -> None:
    use(host())
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetMemoryInfo(gpu).total == 81559 * 2**20
    assert pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2).total == 81559 * 2**20
    assert pynvml.nvmlDeviceGetEccMode(gpu) == [1, 1]
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [0, 0]
    assert pynvml.nvmlDeviceGetTotalEccErrors(gpu, 1, 0) == 0
    assert pynvml.nvmlDeviceGetRemappedRows(gpu) == (0, 0, 0, 0)
    assert pynvml.nvmlDeviceGetTemperatureV(gpu, pynvml.NVML_TEMPERATURE_GPU) == 33
    assert pynvml.nvmlDeviceGetTemperatureThreshold(gpu, pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX) == 87
    assert pynvml.nvmlDeviceGetMarginTemperature(gpu) == 54
    assert pynvml.nvmlDeviceGetPowerUsage(gpu) == 72_000
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) == 700_000
    assert pynvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu) == 700_000
    assert pynvml.nvmlDeviceGetMaxClockInfo(gpu, pynvml.NVML_CLOCK_SM) == 1980
    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu) == pynvml.nvmlClocksEventReasonGpuIdle
    assert pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu) == pynvml.nvmlDeviceGetMaxPcieLinkWidth(gpu) == 16
    assert pynvml.nvmlDeviceGetPcieReplayCounter(gpu) == 0
    assert pynvml.nvmlDeviceGetComputeMode(gpu) == pynvml.NVML_COMPUTEMODE_DEFAULT
    assert pynvml.nvmlDeviceGetPersistenceMode(gpu) == 1
    assert pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu == 0
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(gpu) == []
    pynvml.nvmlDeviceValidateInforom(gpu)
    sram = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    pynvml.nvmlDeviceGetSramEccErrorStatus(gpu, pynvml.byref(sram))
    assert sram.bThresholdExceeded == 0


def test_fields(use: Use) -> None:
    use(host())
    known, unknown = pynvml.nvmlDeviceGetFieldValues(pynvml.nvmlDeviceGetHandleByIndex(0), [230, 9999])
    assert (known.nvmlReturn, known.value.ullVal) == (0, 0)
    assert unknown.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED


@pytest.mark.parametrize(
    ("profile", "call"),
    [
        ("rtx-4090", "nvmlDeviceGetMigMode"),
        ("rtx-4090", "nvmlDeviceGetMarginTemperature"),
        ("t4", "nvmlDeviceGetRemappedRows"),
        ("h100-sxm-80gb", "nvmlDeviceGetRetiredPagesPendingStatus"),
        ("h100-sxm-80gb", "nvmlDeviceGetFanSpeed"),
    ],
)
def test_what_the_gpu_does_not_know_is_not_supported(use: Use, profile: str, call: str) -> None:
    use(host(profile))
    with pytest.raises(pynvml.NVMLError_NotSupported):
        getattr(pynvml, call)(pynvml.nvmlDeviceGetHandleByIndex(0))


def test_an_older_library_lacks_functions(use: Use) -> None:
    use({**host(), "missing": ["nvmlDeviceGetCurrentClocksEventReasons"]})
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)
    assert pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu) == 1


def test_faults(use: Use) -> None:
    document = host()
    document["gpus"][0]["errors"] = {"PowerUsage": 999}
    document["gpus"][1]["errors"] = {"*": 15}
    document["gpus"][0]["answers"]["RemappedRows"] = [0, 1, 1, 0]
    use(document)
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetPowerUsage(gpu)
    assert pynvml.nvmlDeviceGetRemappedRows(gpu) == (0, 1, 1, 0)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        pynvml.nvmlDeviceGetHandleByIndex(1)
    assert pynvml.nvmlDeviceGetComputeMode(gpu) == 0


def test_links(use: Use) -> None:
    use(host())
    first, second = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))
    assert pynvml.nvmlDeviceGetP2PStatus(first, second, 0) == pynvml.NVML_P2P_STATUS_OK
    assert [pynvml.nvmlDeviceGetNvLinkState(first, link) for link in (0, 17)] == [1, 1]
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetNvLinkState(first, 18)
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(first, pynvml.byref(info))
    assert (info.state, info.status) == (pynvml.NVML_GPU_FABRIC_STATE_COMPLETED, 0)


def test_answers_that_change(use: Use) -> None:
    document = host()
    document["gpus"][0]["series"] = {"PcieReplayCounter": [0, 3]}
    use(document)
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert [pynvml.nvmlDeviceGetPcieReplayCounter(gpu) for _ in range(3)] == [0, 3, 3]


@pytest.mark.parametrize("code", [4, 9, 18, 999])
def test_init_that_fails(use: Use, code: int) -> None:
    with pytest.raises(pynvml.NVMLError) as caught:
        use({**host(), "errors": {"nvmlInitWithFlags": code}})
    assert caught.value.value == code
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_after_shutdown_nothing_answers(use: Use) -> None:
    use(host())
    pynvml.nvmlShutdown()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()


def test_processes(use: Use) -> None:
    document = host()
    document["gpus"][0]["processes"] = [{"pid": 4711, "usedGpuMemory": 5}]
    use(document)
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0))
    assert (process.pid, process.usedGpuMemory) == (4711, 5)


def test_xid_events_come_once(use: Use) -> None:
    document = host()
    document["gpus"][1]["xids"] = [79]
    use(document)
    events = pynvml.nvmlEventSetCreate()
    for index in range(2):
        gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
        pynvml.nvmlDeviceRegisterEvents(gpu, pynvml.nvmlEventTypeXidCriticalError, events)
    event = pynvml.nvmlEventSetWait_v2(events, 10)
    assert (event.eventType, event.eventData) == (pynvml.nvmlEventTypeXidCriticalError, 79)
    assert pynvml.nvmlDeviceGetIndex(event.device) == 1
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, 10)
    pynvml.nvmlEventSetFree(events)


def test_mig(use: Use, recorded: Recorded) -> None:
    use(recorded("mig").document)
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetMigMode(gpu) == [1, 1]
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu) == 7
    part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1)
    assert pynvml.nvmlDeviceGetUUID(part) == "MIG-3d1f8a52-6e0b-5c47-9b1d-000000000001"
    assert pynvml.nvmlDeviceGetGpuInstanceId(part) == 2
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)) == 0
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 2)


def test_a_node_sees_only_what_it_was_given_and_counts_from_0(use: Use, recorded: Recorded) -> None:
    document = recorded("eight-gpu").document
    uuids = tuple(document["gpus"][index]["uuid"] for index in (2, 5))
    use(node_document(document, uuids))
    assert pynvml.nvmlDeviceGetCount() == 2
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2)]
    assert tuple(pynvml.nvmlDeviceGetUUID(handle) for handle in handles) == uuids
    assert [pynvml.nvmlDeviceGetMinorNumber(handle) for handle in handles] == [0, 7]
    assert [pynvml.nvmlDeviceGetIndex(handle) for handle in handles] == [0, 1]
    assert len(document["gpus"]) == 8


def test_a_node_with_a_mig_instance_sees_that_instance_only(recorded: Recorded) -> None:
    document = recorded("mig").document
    uuid = document["gpus"][0]["mig"][1]["uuid"]
    (gpu,) = node_document(document, [uuid])["gpus"]
    assert [part["uuid"] for part in gpu["mig"]] == [uuid]


def test_the_file_runs_alone_on_the_standard_library() -> None:
    source = Path(simulate.__file__).read_text()
    script = f"import sys\nexec({source!r})\nassert not any(m.startswith('gpuprov') for m in sys.modules)\n"
    check = (
        script + "document = make_document(load_profiles(sys.argv[1]), profile='t4', count=1)\nSimulatedNvml(document)"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", check, str(PROFILES)], check=True, cwd="/")


@pytest.mark.parametrize("profile", sorted(load_profiles(PROFILES)["gpus"]))
def test_every_profile_has_what_each_gpu_has(use: Use, profile: str) -> None:
    use(host(profile, 1))
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetMemoryInfo(gpu).total > 2**30
    assert pynvml.nvmlDeviceGetPowerUsage(gpu) < pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu)
    assert pynvml.nvmlDeviceGetTemperature(gpu, 0) < pynvml.nvmlDeviceGetTemperatureThreshold(gpu, 3)
