"""What is packed for a machine without a network, from wheels with the names and files of the real ones."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from benchmarks.gpu_proof import pack as packer
from benchmarks.gpu_proof.parts import ROOT
from gpuprov.core.errors import HostNotReady
from gpuprov.provision.role_recipe import SHAPES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.slow

LINUX = "py3-none-manylinux_2_17_x86_64"
EVERYWHERE: dict[str, Sequence[str]] = {
    "numba_cuda-0.30.4-cp311-cp311-linux_x86_64": (
        "_numba_cuda_redirector.pth",
        "numba_cuda/numba/cuda/__init__.py",
        "numba_cuda/numba/cuda/tests/test_a.py",
        "numba_cuda-0.30.4.dist-info/METADATA",
    ),
    "llvmlite-0.50.0-cp311-cp311-linux_x86_64": ("llvmlite/binding/libllvmlite.so", "llvmlite/tests/test_ir.py"),
    "numba-0.68.1-cp311-cp311-linux_x86_64": (
        "numba/",
        "numba/testing/main.py",
        "numba/tests/test_a.py",
        "numba-0.68.1.data/scripts/numba",
        "numba-0.68.1.data/purelib/numba/more.py",
    ),
    "numpy-2.4.6-cp311-cp311-linux_x86_64": ("numpy/__init__.py", "numpy/_core/include/numpy/api.h"),
    "cuda_core-1.2.2-cp311-cp311-linux_x86_64": (
        "cuda/core/__init__.py",
        "cuda/core/cu12/_device.so",
        "cuda/core/cu13/_device.so",
        "cuda/core/cu13/_device.pxd",
    ),
    "nvidia_ml_py-13.615.71-py3-none-any": ("pynvml.py",),
    "pip-25.0-py3-none-any": ("pip/__main__.py",),
}
OF_13: dict[str, Sequence[str]] = {
    f"nvidia_nvvm-13.5.37-{LINUX}": (
        "nvidia/cu13/lib/libnvvm.so.4",
        "nvidia/cu13/nvvm/bin/cicc",
        "nvidia/cu13/nvvm/libdevice/libdevice.10.bc",
    ),
    f"nvidia_cuda_runtime-13.5.37-{LINUX}": (
        "nvidia/cu13/include/cuda.h",
        "nvidia/cu13/lib/libcudadevrt.a",
        "nvidia/cu13/lib/libcudart.so.13",
        "nvidia/cu13/lib/libcudart_static.a",
    ),
    f"nvidia_cuda_cccl-13.3-{LINUX}": ("nvidia/cu13/cccl/lib/x.cmake",),
}
OF_12: dict[str, Sequence[str]] = {
    f"nvidia_cuda_nvcc_cu12-12.9.86-{LINUX}": (
        "nvidia/__init__.py",
        "nvidia/cuda_nvcc/bin/ptxas",
        "nvidia/cuda_nvcc/nvvm/bin/cicc",
        "nvidia/cuda_nvcc/nvvm/lib64/libnvvm.so",
        "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc",
    ),
    f"nvidia_cuda_runtime_cu12-12.9.79-{LINUX}": (
        "nvidia/__init__.py",
        "nvidia/cuda_runtime/lib/libcudadevrt.a",
        "nvidia/cuda_runtime/lib/libcudart.so.12",
    ),
}
ALWAYS = {
    "_numba_cuda_redirector.pth",
    "numba_cuda/numba/cuda/__init__.py",
    "numba_cuda-0.30.4.dist-info/METADATA",
    "llvmlite/binding/libllvmlite.so",
    "numba/testing/main.py",
    "numba/more.py",
    "cuda/core/__init__.py",
    "pynvml.py",
}


def packed(folder: Path, monkeypatch: pytest.MonkeyPatch, wheels: dict[str, Sequence[str]], *options: str) -> set[str]:
    """What is in the file that the program makes of these wheels."""
    made = []
    for name, files in wheels.items():
        made.append(folder / f"{name}.whl")
        with ZipFile(made[-1], "w") as wheel:
            for file in files:
                wheel.writestr(file, f"{name}: {file}")
    monkeypatch.setattr(packer, "ensure_wheels", lambda *_, **__: made)
    out = folder / "out.tar.xz"
    assert packer.main([str(out), *options]) == 0
    with tarfile.open(out) as archive:
        content = archive.extractfile("llvmlite/binding/libllvmlite.so")
        assert content is not None
        assert content.read().endswith(b": llvmlite/binding/libllvmlite.so")
        return set(archive.getnames())


def test_a_machine_with_a_toolkit_gets_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA's runtime is the toolkit's too: nvJitLink links none that is newer."""
    found = packed(tmp_path, monkeypatch, {**EVERYWHERE, **OF_13}, "--cuda", "13")
    assert found == {*ALWAYS, "cuda/core/cu13/_device.so"}


def test_a_bare_machine_gets_numpy_and_the_compilers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compilers = {"nvidia/cu13/lib/libnvvm.so.4", "nvidia/cu13/nvvm/libdevice/libdevice.10.bc", "numpy/__init__.py"}
    small = packed(tmp_path, monkeypatch, {**EVERYWHERE, **OF_13}, "--cuda", "13")
    runtime = {"nvidia/cu13/lib/libcudadevrt.a", "nvidia/cu13/lib/libcudart.so.13"}
    complete = packed(tmp_path, monkeypatch, {**EVERYWHERE, **OF_13}, "--cuda", "13", "--complete")
    assert complete == small | compilers | runtime


def test_an_older_driver_gets_cuda_12(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = {"nvidia/cuda_runtime/lib/libcudadevrt.a", "nvidia/cuda_runtime/lib/libcudart.so.12"}
    compilers = {"nvidia/cuda_nvcc/nvvm/lib64/libnvvm.so", "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc"}
    small = packed(tmp_path, monkeypatch, {**EVERYWHERE, **OF_12}, "--cuda", "12")
    assert small == {*ALWAYS, "cuda/core/cu12/_device.so"}
    complete = packed(tmp_path, monkeypatch, {**EVERYWHERE, **OF_12}, "--cuda", "12", "--complete")
    assert complete == {*small, *compilers, *runtime, "numpy/__init__.py"}


def test_the_wheels_are_those_of_a_major_and_a_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[tuple[str, ...], str]] = []

    def fetch(requirements: tuple[str, ...], *, python: str, cache: Path) -> list[Path]:
        del cache
        asked.append((requirements, python))
        return []

    monkeypatch.setattr(packer, "ensure_wheels", fetch)
    for options in (["--cuda", "12", "--python", "3.10"], ["--cuda", "13", "--python", "3.12"]):
        assert packer.main([str(tmp_path / "out.tar.xz"), *options]) == 0
    assert [python for _, python in asked] == ["3.10", "3.12"]
    assert "numba-cuda[cu12]>=0.30,<0.31" in asked[0][0]
    assert "backports.strenum" in asked[0][0]
    assert "numba-cuda[cu13]>=0.30,<0.31" in asked[1][0]
    assert "backports.strenum" not in asked[1][0]
    assert all(SHAPES in requirements for requirements, _ in asked)


# The modules of what is packed always
PACKED = ("msgspec", "numba", "numba_cuda", "llvmlite", "numpy", "pynvml", "cuda", "packaging")
IMPORT = """
import sys

class Bare:
    known = {*sys.stdlib_module_names, *sys.argv[1:], "benchmarks", "gpuprov", "smoke_kernels"}

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in cls.known:
            raise ModuleNotFoundError(f"the machine has no {name}", name=name)

sys.meta_path.insert(0, Bare)
from benchmarks.gpu_proof import __main__, container, gpu_tests, host, inside, part
"""


def test_the_parts_need_no_package_that_is_not_packed() -> None:
    def start(*modules: str) -> subprocess.CompletedProcess[str]:
        argv = (sys.executable, "-c", IMPORT, *modules)
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert start(*PACKED).stderr == ""
    assert "the machine has no msgspec" in start(*PACKED[1:]).stderr


def test_without_an_index_the_error_has_three_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise HostNotReady("no index", evidence="refused", fix="pip download numpy")

    monkeypatch.setattr(packer, "ensure_wheels", fail)
    assert packer.main([str(tmp_path / "out.tar.xz"), "--cuda", "13"]) == HostNotReady.exit_code
    assert capsys.readouterr().err == "error: no index\n  evidence: refused\n  next:     pip download numpy\n"
    assert not (tmp_path / "out.tar.xz").exists()
