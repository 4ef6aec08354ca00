"""A user's own pynvml in a container with simulated GPUs: the library is compiled and loaded as it is there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpuprov.gpu.nvml_answers import list_answers
from gpuprov.gpu.simulated_hosts import SimulatedHost, make_host
from gpuprov.machine import simulated_nvml
from gpuprov.machine.simulated_nvml import COMPILERS, write_nvml
from gpuprov.runtime.gpus import ANSWERS, NVML_NAME, write_simulated
from tests.unit.runtime.simulated import simulated_host

if TYPE_CHECKING:
    from pathlib import Path

USER = """
import ctypes, json, sys, pynvml as n
library = ctypes.CDLL(sys.argv[1])
n.nvmlLib = library
def ask(name, *rest):
    try:
        found = getattr(n, name)(*rest)
    except n.NVMLError as error:
        return str(error)
    return found if isinstance(found, (int, str, list, tuple)) else {k: getattr(found, k) for k, _ in found._fields_}
before = ask("nvmlDeviceGetCount")
n.nvmlInit()
gpus = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
found = {
    "before": before,
    "driver": n.nvmlSystemGetDriverVersion(),
    "cuda": n.nvmlSystemGetCudaDriverVersion(),
    "beyond": ask("nvmlDeviceGetHandleByIndex", len(gpus)),
    "stranger": ask("nvmlDeviceGetHandleByUUID", "GPU-0"),
    "fan": ask("nvmlDeviceGetFanSpeed", gpus[0]),
    "unknown": ask("nvmlDeviceGetSerial", gpus[0]),
    "uuids": [n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(one))) for one in gpus],
    "gpus": [{name: ask("nvmlDeviceGet" + name, one, *rest) for name, *rest in [
        ("Name",), ("Index",), ("MinorNumber",), ("CudaComputeCapability",), ("UtilizationRates",),
        ("Temperature", 0), ("PowerUsage",), ("ComputeRunningProcesses",), ("EccMode",), ("ClockInfo", 1),
        ("TotalEccErrors", 1, 0)]} for one in gpus],
    "memory": n.nvmlDeviceGetMemoryInfo(gpus[0]).total,
    "memory2": n.nvmlDeviceGetMemoryInfo(gpus[0], version=n.nvmlMemory_v2).free,
    "pci": n.nvmlDeviceGetPciInfo(gpus[0]).busId,
    "by_pci": n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByPciBusId(n.nvmlDeviceGetPciInfo(gpus[0]).busId)),
}
n.nvmlShutdown()
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [name for name in COMPILERS if shutil.which(name)] or ["tcc"])
def test_a_users_own_pynvml_sees_the_leased_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    monkeypatch.setattr(simulated_nvml, "COMPILERS", (compiler,))
    monkeypatch.setattr(simulated_nvml, "PLACE", str(bundle / "simulated-nvml"))
    host = simulated_host(4)
    assert write_nvml(tmp_path, host.document, again=False)
    assert not write_nvml(tmp_path, host.document, again=False)
    units = (host.gpus[1], host.gpus[3])
    write_simulated(bundle, units, folder=tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", USER, str(tmp_path / NVML_NAME)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["uuids"] == [unit.uuid for unit in units]
    assert [one["MinorNumber"] for one in seen["gpus"]] == [unit.minor for unit in units]
    assert [one["Index"] for one in seen["gpus"]] == [0, 1]
    assert all(one["Name"].startswith("SIMULATED ") for one in seen["gpus"])
    assert seen["gpus"][0]["CudaComputeCapability"] == list(units[0].compute_capability or ())
    assert seen["gpus"][0]["UtilizationRates"] == {"gpu": 0, "memory": 0}
    assert seen["gpus"][0]["ComputeRunningProcesses"] == []
    assert (host.document or {})["gpus"][0]["answers"]["PowerUsage"] == seen["gpus"][0]["PowerUsage"]
    assert (seen["memory"], seen["memory2"]) == (units[0].memory_bytes, units[0].memory_bytes)
    assert (seen["driver"], seen["cuda"]) == (host.driver_version, host.cuda_driver_version)
    assert seen["pci"].lower().endswith(units[0].pci)
    assert seen["by_pci"] == units[0].uuid
    assert (seen["before"], seen["beyond"]) == ("Uninitialized", "Invalid Argument")
    assert (seen["stranger"], seen["unknown"]) == ("Not Found", "Function Not Found")
    assert seen["fan"] in ("Not Supported", 0)


def test_without_a_compiler_there_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_nvml, "COMPILERS", ("no-such-compiler",))
    host = simulated_host(2)
    assert write_nvml(tmp_path, host.document, again=False)
    assert not (tmp_path / NVML_NAME).exists()
    write_simulated(tmp_path, host.gpus, folder=tmp_path)
    assert not (tmp_path / "simulated-nvml").exists()
    assert not write_nvml(tmp_path, host.document, again=False)


def test_real_gpus_have_their_own(tmp_path: Path) -> None:
    (tmp_path / ANSWERS).mkdir()
    (tmp_path / ANSWERS / "GPU-0").write_text("Name SIMULATED\n")
    (tmp_path / NVML_NAME).write_text("")
    assert write_nvml(tmp_path, None, again=False)
    assert not (tmp_path / NVML_NAME).exists()


def test_answers_of_mig_instances_are_theirs() -> None:
    document = make_host(SimulatedHost(profile="a100x4"))
    part = {"uuid": "MIG-1", "gpu_instance": 1, "compute_instance": 0, "memory_bytes": 5}
    document["gpus"][0]["mig"] = [part]
    lines = list_answers(document)["MIG-1"]
    assert "UUID MIG-1" in lines
    assert "MemoryInfo.total 5" in lines
    assert any(line.startswith("PciInfo.busId ") for line in lines)
