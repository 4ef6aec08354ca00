"""Compile every kernel to PTX, no GPU needed: `python3 -m smoke_kernels.ptx 7.5` prints {kernel: {capability: PTX}}.

Needs the compiler wheels of numba-cuda[cu12] or [cu13], and no simulator.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from smoke_kernels.anneal.kernel import anneal_source
from smoke_kernels.anneal.single import single_source
from smoke_kernels.backend import SIMULATED, numba_cuda_submodule
from smoke_kernels.hashing_device import digest_source
from smoke_kernels.matmul.doubles import doubles_source
from smoke_kernels.matmul.kernel import matmul_source
from smoke_kernels.matmul.tensor import LEAST_CAPABILITY, tensor_source
from smoke_kernels.matmul.tiles import GPU_TILE
from smoke_kernels.membw.kernel import copy_source, fill_source
from smoke_kernels.scrub import look_source, write_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def kernel_sources() -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
    """Return every kernel's source and the types of its arguments, as the launches pass them."""
    words = "uint32[::1]"
    anneal = (words, "uint8[::1]", words, words, words, "uint32", "uint32", "uint32", "uint32")
    single = ("uint32[::1]", *anneal[:1], *anneal[2:])
    return {
        "matmul": (
            matmul_source(GPU_TILE),
            ("float32[::1]", "float32[::1]", "float32[::1]", "uint32[::1]", "uint32"),
        ),
        "doubles": (doubles_source, ("float64[::1]", "float64[::1]", "float64[::1]", "uint32[::1]", "uint32")),
        "tensor": (tensor_source, ("uint32[::1]", "uint32[::1]", "float32[::1]", "uint32[::1]", "uint32")),
        "digest": (digest_source, ("uint32[::1]", "uint32", "uint32", "uint32", "uint64[::1]")),
        "anneal": (anneal_source(independent=False, grid_wide=True), anneal),
        "anneal-independent": (anneal_source(independent=True, grid_wide=True), anneal),
        "anneal-one-replica": (single_source(grid_wide=True), single),
        "anneal-block": (anneal_source(independent=False, grid_wide=False), anneal),
        "anneal-independent-block": (anneal_source(independent=True, grid_wide=False), anneal),
        "anneal-one-replica-block": (single_source(grid_wide=False), single),
        "fill": (fill_source, ("uint32[::1]", "uint32", "uint32")),
        "copy": (copy_source, ("uint32[::1]", "uint32[::1]", "uint32[::1]", "uint32")),
        "write": (write_source, ("uint32[::1]", "uint32", "uint32")),
        "look": (look_source, ("uint32[::1]", "uint32", "uint32", "int64[::1]")),
    }


def is_for(name: str, capability: tuple[int, int]) -> bool:
    """Return whether GPUs of this compute capability can run a kernel."""
    return name != "tensor" or capability >= LEAST_CAPABILITY


def argument_types(name: str) -> tuple[Any, ...]:
    """Return the types of a kernel's arguments as numba has them."""
    types = numba_cuda_submodule("types")
    return tuple(_numba_type(types, text) for text in kernel_sources()[name][1])


def compile_kernel(name: str, capabilities: Mapping[str, tuple[int, int]]) -> dict[str, str]:
    """Return the PTX of one kernel for each compute capability, given as text and as numbers; link what needs it.

    Most of the time goes to what numba does before NVIDIA's compiler. Only float atomics and functions such as tanh
    make that differ between capabilities, and no kernel has them: so it is done once, by what numba's compile() calls.
    """
    source, _ = kernel_sources()[name]
    signature = argument_types(name)
    lower = numba_cuda_submodule("compiler")._compile_pyfunc_with_fixup  # noqa: SLF001
    library, _ = lower(source, signature, device=False, abi="numba", cc=min(capabilities.values()))
    if library.use_cooperative:
        # As numba does before it launches: such a kernel must also find its half of the barrier in the device runtime.
        library.needs_cudadevrt = True
        for capability in capabilities.values():
            library.get_cubin(cc=capability)
    return {text: str(library.get_asm_str(cc=capability)) for text, capability in capabilities.items()}


def _numba_type(types: Any, text: str) -> Any:  # noqa: ANN401  (numba's types have none)
    element = getattr(types, text.removesuffix("[::1]"))
    return types.Array(element, 1, "C") if text.endswith("[::1]") else element


def main(arguments: Sequence[str]) -> int:
    """Print the PTX of every kernel for every capability named."""
    if SIMULATED:
        sys.stderr.write("error: the simulator compiles nothing\n  next:     unset NUMBA_ENABLE_CUDASIM\n")
        return 2
    split = ((text, text.split(".")) for text in arguments)
    capabilities = {text: (int(major), int(minor)) for text, (major, minor) in split}
    compiled = {
        name: compile_kernel(name, {text: number for text, number in capabilities.items() if is_for(name, number)})
        for name in kernel_sources()
    }
    sys.stdout.write(json.dumps(compiled) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
