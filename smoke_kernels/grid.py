"""Let all blocks of a launch wait for each other: one launch then does what would take thousands.

numba's own cuda.cg.this_grid().sync() asks a GPU for its capability while it compiles, and the compile gate has none.
This calls the same two functions of CUDA's device runtime, which numba links, and marks the kernel in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from smoke_kernels.backend import SIMULATED, cuda, numba_cuda_submodule

if TYPE_CHECKING:
    from smoke_kernels.backend import Kernel

# llvmlite's and numba's own objects, which have no types here.
Lowering = Any

_THE_GRID: Final = 1


def _sync_intrinsic() -> Kernel:
    ir = numba_cuda_submodule("cgutils").ir
    types = numba_cuda_submodule("types")
    runtime = numba_cuda_submodule("nvvmutils")

    def sync_grid(_typing: Lowering) -> tuple[Lowering, Lowering]:
        def generate(context: Lowering, builder: Lowering, _signature: Lowering, _arguments: Lowering) -> Lowering:
            # numba then links the device runtime and launches the kernel cooperatively: with all blocks at once.
            context.active_code_library.use_cooperative = True
            word = ir.IntType(32)
            grid = builder.call(
                runtime.declare_cudaCGGetIntrinsicHandle(builder.module), (ir.Constant(word, _THE_GRID),)
            )
            builder.call(runtime.declare_cudaCGSynchronize(builder.module), (grid, ir.Constant(word, 0)))
            return context.get_dummy_value()

        return types.void(), generate

    return numba_cuda_submodule("extending").intrinsic(sync_grid)


# The simulator runs one block after the other, so a grid whose blocks wait for each other has one block there.
sync_grid: Kernel = numba_cuda_submodule("simulator.kernelapi").GridGroup().sync if SIMULATED else _sync_intrinsic()


def can_sync_grids() -> bool:
    """Whether this GPU starts all blocks of a launch at once where it is asked to: from compute capability 6.0."""
    return SIMULATED or bool(cuda.get_current_device().COOPERATIVE_LAUNCH)


def most_blocks(kernel: Kernel, threads: int) -> int:
    """Return how many blocks of so many threads this GPU holds at once; the kernel was launched before."""
    if SIMULATED:
        return 1
    (compiled,) = kernel.overloads.values()
    return int(compiled.max_cooperative_grid_blocks(threads))
