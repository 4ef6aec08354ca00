"""Builds a program's library, once for each kind of GPU; kept by the program's hash and the compute capability."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.faults import Fault
from gpuwork.errors import Refused
from gpuwork.freeze import hash_folder
from gpuwork.programs.compiler import COMPILE_S, compile_sources
from gpuwork.programs.contract import C_FUNCTIONS
from gpuwork.programs.kernels import find_launches
from gpuwork.programs.toolkit import NATIVE, STANDIN
from gpuwork.shared_folder import locked, make_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuwork.programs.config import ProgramConfig
    from gpuwork.programs.toolkit import Toolkit

OLDEST_OF_NVCC: Final = (7, 5)  # of CUDA 13, whose nvcc nodes have
_BESIDE: Final = NATIVE / "beside.cu"
_ASK_S: Final = 60
_WARNINGS_OFF: Final = "-w"


class BuildFailed(Refused):
    """A program cannot be built, for reasons that its author can read."""


def target_of(capability: tuple[int, int] | None) -> str:
    """For what is built for a GPU; None is no GPU."""
    return STANDIN if capability is None else f"sm_{capability[0]}{capability[1]}"


def library_of(built: Path, target: str) -> Path:
    """Where the library of a program is once it is built; it is built again if what is built beside it changes."""
    return built / f"{target}-{hash_folder(NATIVE)[:12]}.so"


def ensure_library(code: Path, config: ProgramConfig, target: str, *, built: Path, toolkit: Toolkit) -> Path:
    """Build a program for a kind of GPU unless that was done before; of several that ask at once, one builds.

    Args:
        code: The folder of the program.
        config: What its `config.yaml` says.
        target: As `target_of` gives it.
        built: The folder for the libraries of this program.
        toolkit: The compilers.

    Raises:
        BuildFailed: With what the compiler said.
        HostLacks: There is no compiler.
        TimedOut: It took too long.
    """
    library = library_of(built, target)
    if library.exists():
        return library
    built.mkdir(parents=True, exist_ok=True)
    place = built / f".{target}"  # a lock for each kind: others may be built meanwhile
    make_folder(place)
    with locked(place):
        if not library.exists():
            part = place / f"{os.getpid()}.so"
            try:
                faults = build_library(code, config, target, part=part, toolkit=toolkit)
                if faults:
                    raise build_failed(config, target, faults)
                part.replace(library)
            finally:
                part.unlink(missing_ok=True)
    return library


def build_failed(config: ProgramConfig, target: str, faults: Sequence[Fault]) -> BuildFailed:
    """All complaints as one error."""
    return BuildFailed(
        f"program {config.name} cannot be built for {target}",
        evidence="\n".join(map(str, faults)),
        fix=f"correct {faults[0].file}; then run the same command again",
    )


def build_library(code: Path, config: ProgramConfig, target: str, *, part: Path, toolkit: Toolkit) -> list[Fault]:
    """Compile into a file; what is wrong with the program, and then there is no such file.

    Raises:
        HostLacks: There is no compiler.
        TimedOut: It took too long.
    """
    toolkit.require_gxx()
    if target == STANDIN:
        faults = find_kernel_faults(code, config, toolkit) or _build_standin(code, config, part, toolkit)
    elif _number(target) < OLDEST_OF_NVCC:
        from gpuwork.programs.old_gpu import build_old

        faults = build_old(code, config, target, part=part, toolkit=toolkit)
    else:
        argv = [
            *(toolkit.require_nvcc(), f"-arch={target}", "-shared", "-O3", "-std=c++17", "-ccbin", str(toolkit.gxx)),
            *("-Xcompiler", "-fPIC", "-Xlinker", "-zdefs", "-cudart", "static", _WARNINGS_OFF),
            *(f"-I{code}", f"-I{code / Path(config.cuda).parent}", "-o", str(part), config.cuda, str(_BESIDE)),
        ]
        faults = compile_sources(argv, folder=code)
    return faults or _missing_functions(part, config)


def find_kernel_faults(code: Path, config: ProgramConfig, toolkit: Toolkit) -> list[Fault]:
    """Each kernel that would be launched on a machine without a GPU."""
    argv = [toolkit.require_gxx(), "-E", *_standin_flags(code, config), "-x", "c++", config.cuda]
    try:
        done = subprocess.run(  # noqa: S603  (built here)
            argv, cwd=code, capture_output=True, timeout=COMPILE_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return [Fault(file=config.cuda, message=f"the preprocessor did not end within {COMPILE_S:g} s")]
    if done.returncode:
        return []  # the compiler will tell
    return [
        Fault(
            file=launch.file,
            line=launch.line,
            where=launch.kernel,
            message="this kernel is launched, but there is no GPU here",
            allowed="where GPUWORK_STANDIN is defined: the same in C, without kernels",
        )
        for launch in find_launches(done.stdout.decode(errors="replace"))
    ]


def _build_standin(code: Path, config: ProgramConfig, part: Path, toolkit: Toolkit) -> list[Fault]:
    runtime = part.with_suffix(".o")
    flags = [*_standin_flags(code, config), "-O2", "-fPIC", _WARNINGS_OFF]
    try:
        faults = compile_sources(
            [toolkit.require_gxx(), *flags, "-x", "c", "-c", str(NATIVE / STANDIN / "standin.c"), "-o", str(runtime)],
            folder=code,
        )
        return faults or compile_sources(
            [
                *(toolkit.require_gxx(), *flags, "-std=c++17", "-shared", "-Wl,-zdefs", "-o", str(part)),
                *("-x", "c++", config.cuda, str(_BESIDE), "-x", "none", str(runtime)),
            ],
            folder=code,
        )
    finally:
        runtime.unlink(missing_ok=True)


def _standin_flags(code: Path, config: ProgramConfig) -> list[str]:
    return [f"-I{NATIVE / STANDIN}", "-include", "cuda_runtime.h", f"-I{code}", f"-I{code / Path(config.cuda).parent}"]


def _missing_functions(library: Path, config: ProgramConfig) -> list[Fault]:
    """Functions of the contract that a library does not export."""
    done = subprocess.run(  # noqa: S603
        ["nm", "-D", "--defined-only", str(library)],  # noqa: S607  (comes with g++)
        capture_output=True, timeout=_ASK_S, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    there = {line.split()[-1] for line in done.stdout.decode(errors="replace").splitlines() if line.strip()}
    missing = [name for name in C_FUNCTIONS if name not in there]
    return [
        Fault(
            file=config.cuda,
            where=name,
            message="is not exported" + (", because its name is mangled as in C++" if _is_mangled(name, there) else ""),
            allowed=f'extern "C" {C_FUNCTIONS[name].replace("(*)", name)}',
        )
        for name in missing
    ]


def _is_mangled(name: str, there: set[str]) -> bool:
    return any(symbol.startswith(f"_Z{len(name)}{name}") for symbol in there)


def _number(target: str) -> tuple[int, int]:
    digits = target.removeprefix("sm_")
    return int(digits[:-1]), int(digits[-1])
