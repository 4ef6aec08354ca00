"""What the compilers make of the kernels, held on machines without a GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.compile_gate

ROOT = Path(__file__).parents[3]
CAPABILITIES = ("7.5", "8.0", "9.0", "12.0")
KERNELS = ("matmul", "digest", "anneal", "anneal-independent", "anneal-one-replica", "fill", "copy")
INSTALL = "python -m pip install 'numba-cuda[cu13]>=0.30,<0.31' 'nvidia-cuda-nvcc>=13,<14'"

# 256 threads of 128 registers: two blocks of matmul on a multiprocessor of 65536.
MATMUL_REGISTERS = 128


@dataclass(frozen=True)
class Compiled:
    ptx: str
    registers: int
    spilled_bytes: int
    stack_bytes: int

    def count(self, pattern: str) -> int:
        return len(re.findall(pattern, self.ptx))


def find_ptxas() -> str | None:
    """Return the ptxas that came with the wheels, whose compilers numba-cuda uses too."""
    nvidia = importlib.util.find_spec("nvidia")
    for folder in (nvidia.submodule_search_locations or []) if nvidia else []:
        for path in Path(folder).glob("cu13/bin/ptxas"):
            return str(path)
    return None


@pytest.fixture(scope="module")
def ptxas() -> str:
    found = find_ptxas()
    if found is None:
        message = f"the compile gate needs the CUDA compilers, which are wheels: {INSTALL}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="module")
def compiled(ptxas: str, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Compiled]:
    # In a process of its own: this one has numba's simulator.
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, "-m", "smoke_kernels.ptx", *CAPABILITIES],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    folder = tmp_path_factory.mktemp("ptx")
    return {
        (kernel, capability): assemble(ptxas, folder / f"{kernel}-{capability}.ptx", capability, text)
        for kernel, versions in json.loads(done.stdout).items()
        for capability, text in versions.items()
    }


def assemble(ptxas: str, path: Path, capability: str, text: str) -> Compiled:
    path.write_text(text, encoding="utf-8")
    architecture = f"-arch=sm_{capability.replace('.', '')}"
    command = [ptxas, "-v", architecture, str(path), "-o", str(path.with_suffix(".cubin"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    stack, stores, loads = map(
        int, re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)[-1]
    )
    registers = int(re.findall(r"Used (\d+) registers", done.stderr)[-1])
    return Compiled(ptx=text, registers=registers, spilled_bytes=stores + loads, stack_bytes=stack)


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_is_spilled(compiled: dict[tuple[str, str], Compiled], kernel: str, capability: str) -> None:
    result = compiled[kernel, capability]
    assert result.spilled_bytes == 0
    assert result.stack_bytes == 0
    assert result.count(r"\b(?:ld|st)\.local\b") == 0


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_matmul_keeps_two_blocks_on_a_multiprocessor(
    compiled: dict[tuple[str, str], Compiled], capability: str
) -> None:
    assert compiled["matmul", capability].registers <= MATMUL_REGISTERS


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_matmul_moves_vectors_only(compiled: dict[tuple[str, str], Compiled], capability: str) -> None:
    result = compiled["matmul", capability]
    # 8 steps of 64 products, each from 2 + 2 vectors of a tile; 8 rows of 2 vectors of the product.
    assert result.count(r"fma\.rn(?:\.ftz)?\.f32") == 512
    assert result.count(r"ld\.shared\.v4\.[fb]32") == 32
    assert result.count(r"st\.global\.v4\.[fb]32") == 16
    assert result.count(r"ld\.global(?:\.nc)?\.v4\.[fb]32") >= 2
    assert result.count(r"st\.shared\.v4\.[fb]32") >= 2
    assert result.count(r"ld\.(?:shared|global)(?:\.nc)?\.[fb]32") == 0
    assert result.count(r"st\.(?:shared|global)\.[fb]32") == 0


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_copy_moves_vectors_only(compiled: dict[tuple[str, str], Compiled], capability: str) -> None:
    result = compiled["copy", capability]
    assert result.count(r"ld\.global(?:\.nc)?\.v4\.[ub]32") >= 4
    assert result.count(r"ld\.global(?:\.nc)?\.v4") == result.count(r"st\.global\.v4")
    assert result.count(r"(?:ld|st)\.global(?:\.nc)?\.[ub]32") == 0


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("kernel", ["anneal", "anneal-independent", "anneal-one-replica"])
def test_anneal_is_integers_without_a_division(
    compiled: dict[tuple[str, str], Compiled], kernel: str, capability: str
) -> None:
    result = compiled[kernel, capability]
    assert result.count(r"\.f(?:16|32|64)\b") == 0
    assert result.count(r"\b(?:div|rem)\.[us](?:32|64)\b") == 0
    # 65536 registers for 2048 threads: every multiprocessor can be full, except 7.5's, which holds 1024.
    assert result.registers <= (64 if capability == "7.5" else 40)
