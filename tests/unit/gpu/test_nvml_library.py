"""pynvml loads a real shared library here, in the child that asks NVML, as on a GPU host."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpuprov.gpu.nvml import NvmlFailed, read_nvml_in_time

pytestmark = pytest.mark.slow

STUB = Path(__file__).parents[2] / "native" / "nvml_stub.c"


def build(folder: Path, *flags: str) -> Path:
    library = folder / "libnvidia-ml.so.1"
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *flags, "-o", str(library), str(STUB)]
    subprocess.run([*command, "-Wl,-soname,libnvidia-ml.so.1"], check=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


def read(folder: Path, limit_s: float = 20.0, **faults: str) -> dict[str, Any]:
    """What the child finds that is started for it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**faults, "LD_LIBRARY_PATH": str(folder)}.items():
            patch.setenv(name, value)
        try:
            return dataclasses.asdict(read_nvml_in_time(timeout_s=limit_s))
        except NvmlFailed as error:
            return {"code": error.code, "call": error.call, "text": str(error)}


def test_a_healthy_library(library: Path) -> None:
    answer = read(library)
    assert (answer["driver_version"], answer["cuda_driver_version"]) == ("580.95.05", 13000)
    assert [(gpu["index"], gpu["minor"], gpu["pci"]) for gpu in answer["gpus"]] == [
        (0, 1, "0000:41:00.0"),
        (1, 0, "0000:42:00.0"),
    ]
    first = answer["gpus"][0]
    assert first["uuid"] == "GPU-57ab57ab-0000-4000-8000-000000000000"
    assert (first["model"], first["memory_bytes"], first["compute_capability"]) == ("NVIDIA Stub GPU", 2**34, (9, 0))
    assert (first["mig_enabled"], first["mig"]) == (False, ())


@pytest.mark.parametrize("code", [4, 9, 18, 999])
def test_init_that_fails(library: Path, code: int) -> None:
    answer = read(library, STUB_INIT=str(code))
    assert (answer["code"], answer["call"]) == (code, "nvmlInit")
    assert f"NVML code {code}" in answer["text"]


def test_the_count_and_the_uuid_are_the_librarys(library: Path) -> None:
    answer = read(library, STUB_COUNT="3", STUB_UUID="GPU-another")
    assert [gpu["uuid"] for gpu in answer["gpus"]][0::2] == ["GPU-another", "GPU-57ab57ab-0000-4000-8000-000000000002"]
    assert read(library, STUB_COUNT="0")["gpus"] == ()


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("nvmlDeviceGetHandleByIndex_v2", "the handle of GPU 0"),
        ("nvmlDeviceGetUUID", "the UUID of GPU 0"),
        ("nvmlDeviceGetMinorNumber", "the minor number of GPU 0"),
        ("nvmlDeviceGetMemoryInfo", "the memory of GPU 0"),
    ],
)
def test_a_lost_gpu(library: Path, function: str, call: str) -> None:
    answer = read(library, STUB_FAIL=function, STUB_FAIL_CODE="15")
    assert [gpu["code"] for gpu in answer["lost"]] == [15, 15]
    assert answer["lost"][0]["why"].startswith(f"{call}: ")
    assert answer["gpus"] == ()


def test_an_optional_reading_may_be_unsupported(library: Path) -> None:
    answer = read(library, STUB_FAIL="nvmlDeviceGetMemoryInfo", STUB_FAIL_CODE="3")
    assert [gpu["memory_bytes"] for gpu in answer["gpus"]] == [None, None]


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("nvmlInitWithFlags", "nvmlInit"),
        ("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"),
        ("nvmlDeviceGetMinorNumber", "the minor number of GPU 1"),  # of GPU 0 too: it is the driver that hangs
    ],
)
def test_a_driver_that_hangs_has_failed_in_time_and_it_is_said_where(library: Path, function: str, call: str) -> None:
    answer = read(library, limit_s=1.0, STUB_HANG=function)
    assert (answer["code"], answer["text"]) == (10, f"{call}: no response within 1 s (NVML code 10)")


def test_a_gpu_that_hangs_leaves_the_others(library: Path) -> None:
    answer = read(library, limit_s=2.0, STUB_COUNT="3", STUB_HANG="nvmlDeviceGetMinorNumber", STUB_FAIL_GPU="1")
    assert [gpu["index"] for gpu in answer["gpus"]] == [0, 2]
    (lost,) = answer["lost"]
    assert (lost["index"], lost["code"]) == (1, 10)
    assert lost["why"] == "the minor number of GPU 1: no response within 2 s (NVML code 10)"


def test_a_library_that_crashes_ends_only_the_child(library: Path) -> None:
    answer = read(library, STUB_HANG="abort")
    assert (answer["code"], "status -6" in answer["text"]) == (999, True)


def test_a_library_that_lacks_a_function(tmp_path: Path) -> None:
    answer = read(build(tmp_path, "-DWITHOUT_CUDA_VERSION"))
    assert (answer["code"], answer["call"]) == (13, "nvmlSystemGetCudaDriverVersion")


def test_no_library(tmp_path: Path) -> None:
    # An empty file of that name is what a broken driver package leaves; without it a GPU host would load its own.
    (tmp_path / "libnvidia-ml.so.1").write_text("")
    answer = read(tmp_path)
    assert (answer["code"], answer["call"]) == (12, "nvmlInit")
