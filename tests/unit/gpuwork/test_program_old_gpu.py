"""Programs for GPUs that nvcc does not know any more: the source is separated, and both parts are compiled."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuwork.errors import HostLacks
from gpuwork.programs import toolkit
from gpuwork.programs.build import build_library
from gpuwork.programs.config import read_config
from gpuwork.programs.separate import separate
from gpuwork.programs.toolkit import Toolkit, find_toolkit
from tests.fakes.programs import CUDA, LAUNCH, ROOT, write_program

SOURCE = """\
#include "a.h"
// __global__ void not_this() {}
__device__ static double twice(double x) { return 2 * x; }
__host__ __device__ inline long both(long x) { return x; }
struct Pair { int a, b; };
static const int SIZE[] = {1, 2};
#ifdef WIDE
typedef long word;
#else
typedef int word;
#endif
__global__ static void __launch_bounds__(256) go(const double *x, word n) {
    if (n) { __syncthreads(); }
}
namespace mine { int helper() { return 3; } }
extern "C" {
int run(Pair *p) { go<<<dim3(1, 2), mine::helper()>>>(0, 5); return puts("<<<"); }
}
"""


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_each_part_has_what_is_for_it_on_its_lines() -> None:
    found = separate(SOURCE)
    assert found.kernels == ("go",)
    assert found.device.count("\n") == found.host.count("\n") == SOURCE.count("\n")
    for name, in_device, in_host in (
        ("double twice", True, False),
        ("long both", True, True),
        ("struct Pair", True, True),
        ("SIZE[] = {1, 2}", True, True),
        ("typedef long word", True, True),
        ("__syncthreads", True, False),
        ("int helper", False, True),
        ("int run", False, True),
    ):
        assert (name in found.device, name in found.host) == (in_device, in_host), name
    assert "__global__ void __launch_bounds__(256) go(" in one_line(found.device)
    line = found.host.splitlines()[11]
    assert one_line(line) == "void go(const double *x, word n) ;"
    assert 'GpuworkKernel<decltype(go)>("go", dim3(1, 2), mine::helper())(0, 5); return puts("<<<");' in found.host


@pytest.mark.parametrize("text", ["int f() {", "}", "int f() { g<<<1, 2(3); }"])
def test_what_cannot_be_separated_is_told_with_its_line(text: str) -> None:
    with pytest.raises(ValueError, match="line 1: "):
        separate(text)


def build(folder: Path, target: Path, capability: str = "sm_61") -> list[str]:
    config, _, faults = read_config(folder)
    assert config is not None, faults
    return [*map(str, build_library(folder, config, capability, part=target, toolkit=find_toolkit()))]


@pytest.fixture
def old_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC of CUDA 12, from the environment that `make test` makes for the compile gate where there is no other."""
    wheels = [*toolkit._wheels(), *Path(sys.prefix).glob("cu12/lib/python3*/site-packages/nvidia")]
    monkeypatch.setattr(toolkit, "_wheels", lambda: wheels)
    if find_toolkit().old is None and os.environ.get("CI") != "true":
        pytest.skip("no NVRTC of CUDA 12")


@pytest.mark.slow
@pytest.mark.usefixtures("old_cuda")
def test_kmeans_is_built_for_a_gtx_1080(tmp_path: Path) -> None:
    assert build(ROOT / "examples/kmeans/program", tmp_path / "k.so") == []
    symbols = subprocess.run(["nm", "-D", tmp_path / "k.so"], capture_output=True, text=True, check=True).stdout
    assert {"run_iteration", "gpuwork_finish", "gpuwork_words"} <= set(re.findall(r" T (\w+)$", symbols, re.MULTILINE))
    content = (tmp_path / "k.so").read_bytes()
    assert content.count(b"\x7fELF") == 2, "the library, and the kernels within"
    assert b"assign_rows" in content


@pytest.mark.slow
@pytest.mark.usefixtures("old_cuda")
def test_what_is_wrong_with_a_kernel_has_file_and_line(tmp_path: Path) -> None:
    program = write_program(tmp_path / "p", cuda=CUDA + LAUNCH.replace("threadIdx.x", "threadIdx.q"))
    (said,) = build(program, tmp_path / "p.so")
    assert said.startswith("columns.cu:17: ")
    program = write_program(tmp_path / "q", cuda=CUDA.replace("result->rows +=", "result->rowz +=") + LAUNCH)
    (said,) = build(program, tmp_path / "q.so")
    assert said.startswith("columns.cu:8: ")


def test_without_nvrtc_that_is_told(tmp_path: Path) -> None:
    folder = write_program(tmp_path / "p")
    config, _, _ = read_config(folder)
    assert config is not None
    lacking = Toolkit(gxx=find_toolkit().gxx, nvcc=None)
    with pytest.raises(HostLacks, match="no compiler here supports sm_61"):
        build_library(folder, config, "sm_61", part=tmp_path / "p.so", toolkit=lacking)
