"""The compile gate against the real driver: every kernel is compiled, linked and loaded for this GPU."""

from __future__ import annotations

from typing import Any, Final

from smoke_kernels.backend import cuda
from smoke_kernels.device import select_device
from smoke_kernels.ptx import argument_types, is_for, kernel_sources

# As they are launched: the driver must be able to start a block of so many.
_THREADS: Final = 256
_BLOCK_THREADS: Final = 1024
_MATMUL_REGISTERS: Final = 128


def load_kernels() -> dict[str, Any]:
    """Return what the driver says of every kernel on the first GPU."""
    device = select_device(0)
    found = {}
    capability = tuple(cuda.get_current_device().compute_capability)
    for name in (name for name in kernel_sources() if is_for(name, capability)):
        compiled = cuda.jit(kernel_sources()[name][0]).compile(argument_types(name))
        found[name] = {
            "registers": int(compiled.regs_per_thread),
            "local_bytes": int(compiled.local_mem_per_thread),
            "shared_bytes": int(compiled.shared_mem_per_block),
            "most_threads": int(compiled.max_threads_per_block),
            "cooperative": bool(compiled.cooperative),
            "blocks_at_once": int(compiled.max_cooperative_grid_blocks(threads_of(name))),
        }
    wrong = judge_loaded(found)
    gpu = cuda.get_current_device()
    facts = {"multiprocessors": int(gpu.MULTIPROCESSOR_COUNT), "cooperative_launch": bool(gpu.COOPERATIVE_LAUNCH)}
    return {
        "passed": not wrong,
        "why": "; ".join(wrong),
        "device": {**device, **facts},
        "frames": find_frames(found),
        "kernels": found,
    }


def threads_of(name: str) -> int:
    """Return the threads of a block as the kernel is launched."""
    return _BLOCK_THREADS if name.endswith("-block") else _THREADS


def judge_loaded(kernels: dict[str, dict[str, Any]]) -> list[str]:
    """Return what is other than the compile gate promises."""
    wrong = []
    for name, said in kernels.items():
        if said["local_bytes"] and not said["cooperative"]:
            wrong.append(f"{name} spills {said['local_bytes']} bytes a thread")
        if said["most_threads"] < threads_of(name) or said["blocks_at_once"] < 1:
            wrong.append(f"{name} cannot start blocks of {threads_of(name)} threads")
        if name == "matmul" and said["registers"] > _MATMUL_REGISTERS:
            wrong.append(f"matmul takes {said['registers']} registers, so that one block fills a multiprocessor")
    return wrong


def find_frames(kernels: dict[str, dict[str, Any]]) -> list[str]:
    """Return which kernels have local memory that need not be spilled registers.

    A cooperative kernel calls CUDA's device runtime, which has a stack frame, and the driver tells only the sum.
    """
    return [
        f"{name} has {said['local_bytes']} bytes of local memory a thread: the barrier's stack frame, or spills"
        for name, said in kernels.items()
        if said["local_bytes"] and said["cooperative"]
    ]
