"""What the compilers make of the kernels, held on machines without a GPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuprov.core.requirements import load_cuda

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PACKAGES = Path(sysconfig.get_path("purelib"))
CUDA_12 = Path(sys.prefix) / "cu12"
CAPABILITIES = {12: ("5.0", "6.1", "7.0", "7.5", "8.0", "9.0", "12.0"), 13: ("7.5", "8.0", "9.0", "12.0")}
# The oldest and the newest of each; what lies between differs from them in little.
ENDS = {cuda: (capabilities[0], capabilities[-1]) for cuda, capabilities in CAPABILITIES.items()}
COMPILED = [
    pytest.param(cuda, capability, marks=[] if capability in ENDS[cuda] else pytest.mark.long)
    for cuda, capabilities in CAPABILITIES.items()
    for capability in capabilities
]
ANNEALS = ("anneal", "anneal-independent", "anneal-one-replica")
KERNELS = (
    "matmul",
    "doubles",
    "digest",
    *ANNEALS,
    *(f"{name}-block" for name in ANNEALS),
    "fill",
    "copy",
    "write",
    "look",
)

BARRIER = "cudaCGSynchronize"
VECTOR = r"(?:v4\.[fub]32|v2\.b64)"  # 16 bytes
OWNER = 1  # the one word that a block stores by itself: its multiprocessor
TENSOR_CORES = 8.0

each_compiler = pytest.mark.parametrize(("cuda", "capability"), COMPILED)

# 256 threads of 128 registers: two blocks of matmul on a multiprocessor of 65536.
MATMUL_REGISTERS = 128
# 1536 threads on a multiprocessor of 65536
DOUBLES_REGISTERS = 40


@dataclass(frozen=True)
class Compiled:
    ptx: str
    registers: int
    spilled_bytes: int
    stack_bytes: int

    def count(self, pattern: str) -> int:
        return len(re.findall(pattern, self.ptx))


# By CUDA major, kernel and compute capability.
Everything = dict[tuple[int, str, str], Compiled]


@dataclass(frozen=True)
class Compilers:
    """NVIDIA's compilers of one CUDA major, as its wheels bring them."""

    cuda: int
    capabilities: tuple[str, ...]
    python: Path
    ptxas: Path

    def compile(self, folder: Path) -> Everything:
        # In a process of its own: this one has numba's simulator.
        environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
        done = subprocess.run(
            [self.python, "-m", "smoke_kernels.ptx", *self.capabilities],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return {
            (self.cuda, kernel, capability): self.assemble(folder / f"{kernel}-{capability}.ptx", capability, text)
            for kernel, versions in json.loads(done.stdout).items()
            for capability, text in versions.items()
        }

    def assemble(self, path: Path, capability: str, text: str) -> Compiled:
        path.write_text(text, encoding="utf-8")
        done = self.run_ptxas(path, capability)
        assert done.returncode == 0, done.stderr
        stack, stores, loads = map(
            int,
            re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)[-1],
        )
        registers = int(re.findall(r"Used (\d+) registers", done.stderr)[-1])
        return Compiled(ptx=text, registers=registers, spilled_bytes=stores + loads, stack_bytes=stack)

    def run_ptxas(self, path: Path, capability: str) -> subprocess.CompletedProcess[str]:
        architecture = f"-arch=sm_{capability.replace('.', '')}"
        # A barrier of the grid is a function of CUDA's device runtime, which smoke_kernels.ptx has linked already.
        unlinked = ["--compile-only"] if BARRIER in path.read_text(encoding="utf-8") else []
        command: list[str | Path] = [self.ptxas, "-v", *unlinked, architecture, path, "-o", path.with_suffix(".cubin")]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def compilers(request: pytest.FixtureRequest) -> dict[int, Compilers]:
    wanted = CAPABILITIES if request.config.getoption("--long") else ENDS
    cuda_12 = CUDA_12 / PACKAGES.relative_to(sys.prefix)
    found = {
        12: Compilers(
            cuda=12,
            capabilities=wanted[12],
            python=CUDA_12 / "bin/python",
            ptxas=cuda_12 / "nvidia/cuda_nvcc/bin/ptxas",
        ),
        13: Compilers(
            cuda=13, capabilities=wanted[13], python=Path(sys.executable), ptxas=PACKAGES / "nvidia/cu13/bin/ptxas"
        ),
    }
    missing = [str(compilers.ptxas) for compilers in found.values() if not compilers.ptxas.is_file()]
    if missing:
        message = f"the compile gate needs the CUDA compilers; missing: {', '.join(missing)}; make .venv/cu12/.test"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="module")
def compiled(compilers: dict[int, Compilers], tmp_path_factory: pytest.TempPathFactory) -> Everything:
    folders = [tmp_path_factory.mktemp(f"cuda-{cuda}") for cuda in compilers]
    with ThreadPoolExecutor() as pool:
        each = list(pool.map(Compilers.compile, compilers.values(), folders))
    return {key: result for compiled in each for key, result in compiled.items()}


def test_the_requirements_promise_what_is_compiled_here() -> None:
    assert {cuda: line.compiled_for for cuda, line in load_cuda().items()} == CAPABILITIES


def test_the_least_compute_capability_of_cuda_13_is_that_of_its_compilers(
    compilers: dict[int, Compilers], tmp_path: Path
) -> None:
    for capability, known in ((CAPABILITIES[13][0], True), ("7.0", False)):
        path = tmp_path / f"{capability}.ptx"
        path.write_text(f".version 8.0\n.target sm_{capability.replace('.', '')}\n.address_size 64\n")
        done = compilers[13].run_ptxas(path, capability)
        assert (done.returncode == 0) == known, done.stderr


@each_compiler
@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_is_spilled(compiled: Everything, kernel: str, cuda: int, capability: str) -> None:
    result = compiled[cuda, kernel, capability]
    assert result.spilled_bytes == 0
    assert result.stack_bytes == 0
    assert result.count(r"\b(?:ld|st)\.local\b") == 0


@each_compiler
def test_matmul_keeps_two_blocks_on_a_multiprocessor(compiled: Everything, cuda: int, capability: str) -> None:
    assert compiled[cuda, "matmul", capability].registers <= MATMUL_REGISTERS


@each_compiler
def test_matmul_moves_vectors_only(compiled: Everything, cuda: int, capability: str) -> None:
    result = compiled[cuda, "matmul", capability]
    # 8 steps of 64 products, each from 2 + 2 vectors of a tile; 8 rows of 2 vectors of the product.
    assert result.count(r"fma\.rn(?:\.ftz)?\.f32") == 512
    assert result.count(r"ld\.shared\.v4\.[fb]32") == 32
    assert result.count(r"st\.global\.v4\.[fb]32") == 16
    assert result.count(rf"ld\.global(?:\.nc)?\.{VECTOR}") >= 2
    assert result.count(rf"st\.shared\.{VECTOR}") >= 2
    assert result.count(r"ld\.(?:shared|global)(?:\.nc)?\.[fub]32") == 0
    assert result.count(r"st\.(?:shared|global)\.[fub]32") == OWNER


@each_compiler
def test_doubles_are_multiplied_and_added_in_one_instruction(compiled: Everything, cuda: int, capability: str) -> None:
    result = compiled[cuda, "doubles", capability]
    assert result.count(r"fma\.rn\.f64") >= 1
    assert result.count(r"(?:add|sub|mul)(?:\.rn)?\.f64") == 0  # would round twice
    assert result.registers <= DOUBLES_REGISTERS


@pytest.mark.parametrize(("cuda", "capability"), [one for one in COMPILED if float(str(one.values[1])) >= TENSOR_CORES])
def test_tensor_cores_are_used_where_they_can_be(compiled: Everything, cuda: int, capability: str) -> None:
    result = compiled[cuda, "tensor", capability]
    assert result.count(r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32 \{%[fr]\d") == 1
    assert (result.spilled_bytes, result.stack_bytes, result.count(r"%smid;")) == (0, 0, 1)


def test_tensor_cores_are_not_asked_of_gpus_without_that_instruction(compiled: Everything) -> None:
    asked = {float(capability) for _, kernel, capability in compiled if kernel == "tensor"}
    assert asked == {float(capability) for _, _, capability in compiled if float(capability) >= TENSOR_CORES}


@each_compiler
def test_the_copy_moves_vectors_only(compiled: Everything, cuda: int, capability: str) -> None:
    result = compiled[cuda, "copy", capability]
    assert result.count(rf"ld\.global(?:\.nc)?\.{VECTOR}") >= 4
    assert result.count(rf"ld\.global(?:\.nc)?\.{VECTOR}") == result.count(rf"st\.global\.{VECTOR}")
    assert result.count(r"(?:ld|st)\.global(?:\.nc)?\.[ub]32") == OWNER


@each_compiler
@pytest.mark.parametrize("kernel", [name for name in KERNELS if name.startswith("anneal")])
def test_anneal_is_integers_without_a_division(compiled: Everything, kernel: str, cuda: int, capability: str) -> None:
    result = compiled[cuda, kernel, capability]
    assert result.count(r"\.f(?:16|32|64)\b") == 0
    assert result.count(r"\b(?:div|rem)\.[us](?:32|64)\b") == 0
    # A multiprocessor has 65536 registers: with 40 it holds 1536 threads, with 48 it holds 1280. One of 7.5 holds at
    # most 1024; on those before it, one replica takes 47 registers. A block that holds a lattice has 1024 threads.
    most = {"5.0": 48, "6.1": 48, "7.0": 48, "7.5": 64}.get(capability, 40)
    assert result.registers <= (64 if kernel.endswith("-block") else most)


@each_compiler
@pytest.mark.parametrize("kernel", [name for name in KERNELS if name not in {"digest", "fill", "write", "look"}])
def test_blocks_tell_their_multiprocessor(compiled: Everything, kernel: str, cuda: int, capability: str) -> None:
    assert compiled[cuda, kernel, capability].count(r"mov\.u32\s+%r\d+, %smid;") == 1


@each_compiler
@pytest.mark.parametrize("kernel", ANNEALS)
def test_the_blocks_of_a_grid_wait_for_each_other_in_one_launch(
    compiled: Everything, kernel: str, cuda: int, capability: str
) -> None:
    assert compiled[cuda, kernel, capability].count(rf"\b{BARRIER}\b") >= 2  # declared and called
    alone = compiled[cuda, f"{kernel}-block", capability]
    assert (alone.count(BARRIER), alone.count(r"\bbar\.sync\b")) == (0, 1)
    # What another block wrote before the barrier must not come from a cache that nobody keeps coherent.
    assert compiled[cuda, kernel, capability].count(r"\bld\.global\.nc\b") == 0
