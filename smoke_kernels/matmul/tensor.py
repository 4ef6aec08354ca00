"""A product on tensor cores: float16 factors, float32 sums, integers throughout, so that any order gives the same bits.

One instruction of a warp multiplies (16, 16) by (16, 8). Which elements each lane holds is fixed by PTX (matrix
fragments of mma.m16n8k16): lane 4 * group + pair has rows `group` and `group + 8` of the left factor, column `group` of
the right one, and of both the places 2 * pair and 2 * pair + 1 of each half of the depth. Two neighbours in depth are
one word. Every warp makes the same small product.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smoke_kernels.backend import SIMULATED, cuda, numba_cuda_submodule, to_device, u32
from smoke_kernels.hashing import counter_words
from smoke_kernels.matmul.blocks import check_blocks
from smoke_kernels.multiprocessors import own_multiprocessor
from smoke_kernels.result import Check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smoke_kernels.backend import DeviceArray, DeviceWord, Kernel
    from smoke_kernels.multiprocessors import Census

# llvmlite's and numba's own objects, which have no types here.
Lowering = Any
Sums = tuple[Any, Any, Any, Any]

LEAST_CAPABILITY: Final = (8, 0)
"""GPUs before it have other instructions, or no tensor cores."""

ROWS: Final = 16
COLUMNS: Final = 8
WARP: Final = 32
WARPS: Final = 1 if SIMULATED else 8
DEPTH: Final = 32 if SIMULATED else 256

WIDE: Final = 2**11
"""In turns, entries of one factor are below this, all bits of a float16's mantissa, and those of the other one ..."""
NARROW: Final = 4
"""... below this: no sum reaches 2**21, where any way to add in float32 is exact."""

_STEP_WORDS: Final = 8  # 16 float16 in depth
_STREAM_LEFT: Final = 17
_STREAM_RIGHT: Final = 18
_INSTRUCTION: Final = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def _mma_intrinsic() -> Kernel:
    ir = numba_cuda_submodule("cgutils").ir
    types = numba_cuda_submodule("types")

    def multiply_add(_typing: Lowering, _words: Lowering, _sums: Lowering) -> tuple[Lowering, Lowering]:
        def generate(context: Lowering, builder: Lowering, signature: Lowering, arguments: Lowering) -> Lowering:
            word, number = ir.IntType(32), ir.FloatType()
            operands = [builder.extract_value(arguments[0], place) for place in range(6)]
            totals = [builder.extract_value(arguments[1], place) for place in range(4)]
            kind = ir.FunctionType(ir.LiteralStructType([number] * 4), [word] * 6 + [number] * 4)
            text = f"{_INSTRUCTION} {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, $9}}, {{$10, $11, $12, $13}};"
            places = ",".join(["=f"] * 4 + ["r"] * 6 + ["f"] * 4)
            made = builder.call(ir.InlineAsm(kind, text, places, side_effect=True), [*operands, *totals])
            lanes = [builder.extract_value(made, place) for place in range(4)]
            return context.make_tuple(builder, signature.return_type, lanes)

        four = types.UniTuple(types.float32, 4)
        return four(types.UniTuple(types.uint32, 6), four), generate

    return numba_cuda_submodule("extending").intrinsic(multiply_add)


def _multiply_add_simulated(words: tuple[int, ...], sums: Sums) -> Sums:
    """Put together the factors that the lanes of the warp hold, and return this lane's part of their product."""
    held = cuda.shared.array(6 * WARP, np.uint32)
    lane = int(cuda.threadIdx.x)
    held[6 * lane : 6 * lane + 6] = words
    cuda.syncthreads()
    left, right = join_fragments(np.array(held).reshape(WARP, 6))
    cuda.syncthreads()
    product = left @ right
    group, pair = divmod(lane, 4)
    mine = (product[row, 2 * pair + one] for row in (group, group + 8) for one in (0, 1))
    first, second, third, fourth = (total + np.float32(value) for total, value in zip(sums, mine, strict=True))
    return first, second, third, fourth


def join_fragments(words: NDArray[np.uint32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the (16, 16) and (16, 8) factors of which 32 lanes hold (32, 6) words, as PTX numbers the elements."""
    halves = words.view(np.float16).reshape(WARP, 12)
    left, right = np.full((ROWS, ROWS), np.nan), np.full((ROWS, COLUMNS), np.nan)
    group, pair = np.divmod(np.arange(WARP), 4)
    for i in range(8):
        row = group if i < 2 or 4 <= i < 6 else group + 8  # noqa: PLR2004  (as PTX says it)
        left[row, pair * 2 + (i & 1) + (8 if i >= 4 else 0)] = halves[:, i]  # noqa: PLR2004
    for i in range(4):
        right[pair * 2 + (i & 1) + (8 if i >= 2 else 0), group] = halves[:, 8 + i]  # noqa: PLR2004
    return left, right


multiply_add: Kernel = _multiply_add_simulated if SIMULATED else _mma_intrinsic()


def tensor_source(
    left: DeviceArray, right: DeviceArray, product: DeviceArray, owners: DeviceArray, depth_words: DeviceWord
) -> None:
    """Multiply (16, depth) by (depth, 8) in every warp; words of two float16 in depth, the right factor by columns."""
    warp, lane = u32(u32(cuda.threadIdx.x) // u32(WARP)), u32(u32(cuda.threadIdx.x) % u32(WARP))
    group, pair = u32(lane // u32(4)), u32(lane % u32(4))
    upper = u32(u32(group * depth_words) + pair)
    lower = u32(upper + u32(u32(8) * depth_words))
    sums = (np.float32(0), np.float32(0), np.float32(0), np.float32(0))
    step = u32(0)
    while step < depth_words:
        later = u32(step + u32(4))
        words = (
            left[u32(upper + step)],
            left[u32(lower + step)],
            left[u32(upper + later)],
            left[u32(lower + later)],
            right[u32(upper + step)],
            right[u32(upper + later)],
        )
        sums = multiply_add(words, sums)
        step = u32(step + u32(_STEP_WORDS))
    warps = u32(u32(cuda.blockDim.x) // u32(WARP))
    first = u32(u32(u32(u32(u32(cuda.blockIdx.x) * warps) + warp) * u32(ROWS) + group) * u32(COLUMNS) + u32(2) * pair)
    product[first] = sums[0]
    product[u32(first + u32(1))] = sums[1]
    product[u32(first + u32(8 * COLUMNS))] = sums[2]
    product[u32(first + u32(8 * COLUMNS + 1))] = sums[3]
    if cuda.threadIdx.x == 0:
        owners[cuda.blockIdx.x] = own_multiprocessor()


@cache
def _tensor_kernel() -> Kernel:
    return cuda.jit(tensor_source)


def tensor_factors(depth: int, *, seed: int) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Return the (16, depth) and (8, depth) factors, integers of both signs; the right one is transposed."""
    even = np.arange(depth) % 2 == 0
    left = _entries(ROWS, np.where(even, WIDE, NARROW), seed, _STREAM_LEFT)
    return left, _entries(COLUMNS, np.where(even, NARROW, WIDE), seed, _STREAM_RIGHT)


def _entries(rows: int, bounds: NDArray[np.int64], seed: int, stream: int) -> NDArray[np.float16]:
    words = counter_words(rows * bounds.size, seed=seed, stream=stream).reshape(rows, bounds.size)
    magnitudes = (words & (bounds - 1).astype(np.uint32)).astype(np.int32)
    return np.where(words >> np.uint32(31) == 1, -magnitudes, magnitudes).astype(np.float16)


def check_tensor_cores(census: Census, seed: int) -> Check:
    """Make the product in every warp some times, and require the same bits of all; skipped by GPUs that cannot."""
    capability = LEAST_CAPABILITY if SIMULATED else tuple(cuda.get_current_device().compute_capability)
    if capability < LEAST_CAPABILITY:
        said, least = (".".join(map(str, one)) for one in (capability, LEAST_CAPABILITY))
        return Check(name="tensor-cores", passed=True, evidence=f"not asked: compute capability {said}, not {least}")
    left, right = tensor_factors(DEPTH, seed=seed)
    expected = (left.astype(np.float64) @ right.T.astype(np.float64)).astype(np.float32)
    factors = to_device(left.view(np.uint32).reshape(-1)), to_device(right.view(np.uint32).reshape(-1))

    def launch(blocks: int, words: DeviceArray, owners: DeviceArray) -> None:
        _tensor_kernel()[blocks, WARPS * WARP](*factors, words.view(np.float32), owners, u32(DEPTH // 2))

    return check_blocks(
        census,
        launch,
        np.tile(expected.view(np.uint32).reshape(-1), WARPS),
        name="tensor-cores",
        what=f"{ROWS} x {COLUMNS} sums of {DEPTH} float16 products",
    )
