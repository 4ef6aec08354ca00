"""Compile every kernel to PTX, no GPU needed: `python3 -m smoke_kernels.ptx 7.5` prints {kernel: {capability: PTX}}.

Needs the compiler wheels of numba-cuda[cu13], and no simulator.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from smoke_kernels.anneal.kernel import anneal_source
from smoke_kernels.anneal.single import single_source
from smoke_kernels.backend import SIMULATED, numba_cuda_submodule
from smoke_kernels.hashing_device import digest_source
from smoke_kernels.matmul.kernel import matmul_source
from smoke_kernels.matmul.tiles import GPU_TILE
from smoke_kernels.membw.kernel import copy_source, fill_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def kernel_sources() -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
    """Return every kernel's source and the types of its arguments, as the launches pass them."""
    anneal = ("uint32[::1]", "uint8[::1]", "uint32[::1]", "uint32", "uint32", "uint32")
    return {
        "matmul": (matmul_source(GPU_TILE), ("float32[::1]", "float32[::1]", "float32[::1]", "uint32")),
        "digest": (digest_source, ("uint32[::1]", "uint32", "uint32", "uint32", "uint64[::1]")),
        "anneal": (anneal_source(independent=False), anneal),
        "anneal-independent": (anneal_source(independent=True), anneal),
        "anneal-one-replica": (single_source, ("uint32[::1]", *anneal[:1], *anneal[2:])),
        "fill": (fill_source, ("uint32[::1]", "uint32", "uint32")),
        "copy": (copy_source, ("uint32[::1]", "uint32[::1]", "uint32")),
    }


def compile_kernel(name: str, capability: tuple[int, int]) -> str:
    """Return the PTX of one kernel for one compute capability."""
    types = numba_cuda_submodule("types")
    source, argument_types = kernel_sources()[name]
    signature = tuple(_numba_type(types, text) for text in argument_types)
    ptx, _ = numba_cuda_submodule("compiler").compile_ptx(source, signature, cc=capability)
    return str(ptx)


def _numba_type(types: Any, text: str) -> Any:  # noqa: ANN401  (numba's types have none)
    element = getattr(types, text.removesuffix("[::1]"))
    return types.Array(element, 1, "C") if text.endswith("[::1]") else element


def main(arguments: Sequence[str]) -> int:
    """Print the PTX of every kernel for every capability named."""
    if SIMULATED:
        sys.stderr.write("error: the simulator compiles nothing\n  next:     unset NUMBA_ENABLE_CUDASIM\n")
        return 2
    capabilities = [tuple(int(part) for part in text.split(".")) for text in arguments]
    compiled = {
        name: {f"{major}.{minor}": compile_kernel(name, (major, minor)) for major, minor in capabilities}
        for name in kernel_sources()
    }
    sys.stdout.write(json.dumps(compiled) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
