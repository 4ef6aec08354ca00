"""Builds a program for GPUs that nvcc does not know any more: NVRTC for the kernels, g++ for the rest."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.shapes.faults import Fault
from gpuwork.errors import HostLacks
from gpuwork.program import program_argv
from gpuwork.programs.compiler import compile_sources
from gpuwork.programs.separate import separate
from gpuwork.programs.toolkit import NATIVE

if TYPE_CHECKING:
    from gpuwork.programs.config import ProgramConfig
    from gpuwork.programs.separate import Separated
    from gpuwork.programs.toolkit import OldCuda, Toolkit


def build_old(code: Path, config: ProgramConfig, target: str, *, part: Path, toolkit: Toolkit) -> list[Fault]:
    """Compile into a file; what is wrong with the program, and then there is no such file.

    Raises:
        HostLacks: There is no NVRTC of CUDA 12, or no g++.
        TimedOut: It took too long.
    """
    if toolkit.old is None:
        raise HostLacks(
            f"no compiler here supports {target}",
            evidence="nvcc 13 does not support GPUs before 7.5, and the wheels of CUDA 12's NVRTC are not installed",
            fix="python3 -m pip install nvidia-cuda-nvcc-cu12 nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12; "
            "in nodes: `image: {toolkit: true}` in the spec of the cluster",
        )
    try:
        separated = separate((code / config.cuda).read_text(encoding="utf-8"))
    except ValueError as error:
        return [Fault(file=config.cuda, message=f"cannot be separated: {error}")]
    with tempfile.TemporaryDirectory() as place:
        device = Path(place, "device.cu")
        device.write_text(separated.device)
        faults = _compile_device(code, config, target, separated, device, toolkit.old)
        if faults:
            return faults
        host = Path(place, "host.cpp")
        host.write_text(f'#include "old_gpu.h"\n#line 1 "{config.cuda}"\n{separated.host}\n{_embed_kernels(device)}')
        return _compile_host(code, config, host, part, toolkit)


def _compile_device(
    code: Path, config: ProgramConfig, target: str, separated: Separated, device: Path, old: OldCuda
) -> list[Fault]:
    includes = [f"-I{folder}" for folder in (code, (code / config.cuda).parent, *old.includes)]
    argv = program_argv(
        *("gpuwork.programs.nvrtc", str(old.nvrtc), str(device), config.cuda, ",".join(separated.kernels), target),
        *includes,
    )
    return compile_sources(argv, folder=code)


def _embed_kernels(device: Path) -> str:
    """What NVRTC made, as C++."""
    cubin = ",".join(map(str, Path(f"{device}.cubin").read_bytes()))
    lowered = json.loads(Path(f"{device}.json").read_text())
    names = ", ".join(f'{{"{name}", "{symbol}"}}' for name, symbol in lowered.items())
    return (
        f"alignas(64) extern const unsigned char gpuwork_cubin[] = {{{cubin}}};\n"
        f"extern const GpuworkName gpuwork_names[] = {{{names}{', ' if names else ''}{{0, 0}}}};\n"
    )


def _compile_host(code: Path, config: ProgramConfig, host: Path, part: Path, toolkit: Toolkit) -> list[Fault]:
    assert toolkit.old is not None  # noqa: S101  (build_old has looked)
    folders = (*toolkit.old.includes, NATIVE, code, (code / config.cuda).parent)
    runtime = toolkit.old.cudart
    argv = [
        *(toolkit.require_gxx(), "-O3", "-std=c++17", "-fPIC", "-shared", "-w", *(f"-I{folder}" for folder in folders)),
        *("-o", str(part), str(host), str(NATIVE / "old_gpu.cpp"), str(runtime), f"-Wl,-rpath,{runtime.parent}"),
        *("-Wl,-zdefs", "-ldl"),
    ]
    return compile_sources(argv, folder=code)
