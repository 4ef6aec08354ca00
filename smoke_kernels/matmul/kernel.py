"""The matmul kernel: register-tiled, through shared memory, one source for the simulator and every GPU."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from smoke_kernels.backend import ALIGNMENT, SIMULATED, cuda, device_function, u32, u64
from smoke_kernels.multiprocessors import own_multiprocessor
from smoke_kernels.vectors import LANES, load_four, store_four

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoke_kernels.backend import DeviceArray, DeviceWord, Kernel
    from smoke_kernels.matmul.tiles import Tile


UNROLLED: Final = 8


def _lane_place(lane: DeviceWord, two_rows: DeviceWord) -> tuple[DeviceWord, DeviceWord]:
    """Return row and column of a lane in its warp's part of the tile, where two rows hold `two_rows` lanes.

    Neighbours read the same vector of the right tile, and lanes two apart the same one of the left: shared memory then
    serves each load of a warp in two wavefronts. With lanes row by row, it takes three on average.
    """
    return u32(u32(u32(lane // two_rows) * u32(2)) + u32(lane % u32(2))), u32(u32(lane % two_rows) // u32(2))


lane_place = device_function(_lane_place)


def _multiply_add(left: DeviceWord, right: DeviceWord, total: DeviceWord) -> DeviceWord:
    return total + left * right


def _multiply_add_exactly(left: DeviceWord, right: DeviceWord, total: DeviceWord) -> DeviceWord:
    return float(total) + float(left) * float(right)


# A GPU's instruction rounds once. So does the simulator, when it stores: the 53 bits of Python's floats hold the sum of
# every product here (inputs.py), where numpy's float32 would round the product too.
multiply_add = device_function(_multiply_add_exactly if SIMULATED else _multiply_add)


def matmul_source(  # noqa: PLR0915  (the unrolled loop)
    tile: Tile,
) -> Callable[[DeviceArray, DeviceArray, DeviceArray, DeviceArray, int], None]:
    """Return the kernel's source for one tile shape: product = left_transposed.T @ right, (size, size) float32, flat.

    The left matrix comes transposed, so that both tiles are copied the same way: rows of consecutive floats. `owners`
    gets each block's multiprocessor. `size` is a multiple of tile.block and of tile.depth. All indices are unsigned: no
    sign handling, fewer registers. Two tiles of each side are in shared memory: while one is multiplied, the next is on
    its way through registers.
    """
    tile_floats = tile.block * tile.depth
    buffers_floats = 2 * tile_floats
    staged_floats = tile_floats // tile.threads
    side, depth, block = tile.thread, tile.depth, tile.block
    lanes_down, lanes_across = tile.lanes_down, tile.lanes_across
    warp_threads, warps_across = lanes_down * lanes_across, tile.threads_across // lanes_across
    sums_per_thread = side * side
    fetch, stage, multiply, write = fetch_source(tile), stage_source(tile), multiply_source(tile), write_source(tile)

    def matmul(
        left_transposed: DeviceArray, right: DeviceArray, product: DeviceArray, owners: DeviceArray, size: int
    ) -> None:
        left_tiles = cuda.shared.array(buffers_floats, np.float32, alignment=ALIGNMENT)
        right_tiles = cuda.shared.array(buffers_floats, np.float32, alignment=ALIGNMENT)
        left_staged = cuda.local.array(staged_floats, np.float32)
        right_staged = cuda.local.array(staged_floats, np.float32)
        left_column = cuda.local.array(side, np.float32)
        right_row = cuda.local.array(side, np.float32)
        sums = cuda.local.array(sums_per_thread, np.float32)

        thread = u32(cuda.threadIdx.x)
        first_row = u32(u32(cuda.blockIdx.y) * u32(block))
        first_column = u32(u32(cuda.blockIdx.x) * u32(block))
        warp, lane = u32(thread // u32(warp_threads)), u32(thread % u32(warp_threads))
        warp_row, warp_column = u32(warp // u32(warps_across)), u32(warp % u32(warps_across))
        lane_row, lane_column = lane_place(lane, u32(2 * lanes_across))
        thread_row = u32(u32(u32(warp_row * u32(lanes_down)) + lane_row) * u32(LANES))
        thread_column = u32(u32(u32(warp_column * u32(lanes_across)) + lane_column) * u32(LANES))
        for i in range(sums_per_thread):
            sums[i] = np.float32(0)
        fetch(left_transposed, first_row, size, thread, left_staged)
        fetch(right, first_column, size, thread, right_staged)
        stage(left_staged, left_tiles, u32(0), thread)
        stage(right_staged, right_tiles, u32(0), thread)
        cuda.syncthreads()
        buffer = u32(0)
        for base in range(u32(depth), u32(size + u32(depth)), u32(depth)):
            if base < size:
                fetch(left_transposed, u32(u32(base * size) + first_row), size, thread, left_staged)
                fetch(right, u32(u32(base * size) + first_column), size, thread, right_staged)
            left_place = u64(buffer + thread_row)
            right_place = u64(buffer + thread_column)
            # Written out: neither compiler unrolls so large a body, and each load would wait for the products before.
            for k in range(0, depth, UNROLLED):
                multiply(left_tiles, left_place, left_column, right_tiles, right_place, right_row, sums, k)
                multiply(left_tiles, left_place, left_column, right_tiles, right_place, right_row, sums, k + 1)
                multiply(left_tiles, left_place, left_column, right_tiles, right_place, right_row, sums, k + 2)
                multiply(left_tiles, left_place, left_column, right_tiles, right_place, right_row, sums, k + 3)
                multiply(left_tiles, left_place, left_column, right_tiles, right_place, right_row, sums, k + 4)
                multiply(left_tiles, left_place, left_column, right_tiles, right_place, right_row, sums, k + 5)
                multiply(left_tiles, left_place, left_column, right_tiles, right_place, right_row, sums, k + 6)
                multiply(left_tiles, left_place, left_column, right_tiles, right_place, right_row, sums, k + 7)
            buffer = u32(u32(tile_floats) - buffer)
            if base < size:
                stage(left_staged, left_tiles, buffer, thread)
                stage(right_staged, right_tiles, buffer, thread)
            cuda.syncthreads()
        write(sums, product, u32(first_row + thread_row), u32(first_column + thread_column), size)
        if thread == 0:
            owners[cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x] = own_multiprocessor()

    return matmul


def fetch_source(tile: Tile) -> Kernel:
    """Return the device function that loads a thread's share of a (depth, block) tile from global memory."""
    vectors = tile.vectors_per_thread
    threads, block = tile.threads, tile.block

    def fetch(
        matrix: DeviceArray, corner: DeviceWord, size: DeviceWord, thread: DeviceWord, staged: DeviceArray
    ) -> None:
        for vector in range(vectors):
            place = u32(u32(thread + u32(vector * threads)) * u32(LANES))
            words = load_four(matrix, u32(corner + u32(u32(place // u32(block)) * size) + u32(place % u32(block))))
            staged[vector * LANES] = words[0]
            staged[vector * LANES + 1] = words[1]
            staged[vector * LANES + 2] = words[2]
            staged[vector * LANES + 3] = words[3]

    return device_function(fetch)


def stage_source(tile: Tile) -> Kernel:
    """Return the device function that stores what `fetch` loaded into the shared tile that starts at `first`."""
    vectors = tile.vectors_per_thread
    threads = tile.threads

    def stage(staged: DeviceArray, tiles: DeviceArray, first: DeviceWord, thread: DeviceWord) -> None:
        for vector in range(vectors):
            place = u32(first + u32(u32(thread + u32(vector * threads)) * u32(LANES)))
            held = vector * LANES
            store_four(tiles, place, (staged[held], staged[held + 1], staged[held + 2], staged[held + 3]))

    return device_function(stage)


def multiply_source(tile: Tile) -> Kernel:
    """Return the device function that adds a column of the left tile times a row of the right one to a thread's sums.

    A thread's elements come in groups of four: neighbouring threads read neighbouring vectors, no bank conflicts.
    """
    side, block = tile.thread, tile.block
    groups = side // LANES
    step = tile.group_step

    def multiply(  # noqa: PLR0913, PLR0917  (registers and places of two operands; a tuple would hide which is which)
        left_tiles: DeviceArray,
        left_place: DeviceWord,
        left_column: DeviceArray,
        right_tiles: DeviceArray,
        right_place: DeviceWord,
        right_row: DeviceArray,
        sums: DeviceArray,
        k: int,
    ) -> None:
        for group in range(groups):
            # 64 bits wide, so that the constant part becomes an offset in the load instruction.
            offset = u64(k * block + group * step)
            left_words = load_four(left_tiles, left_place + offset)
            right_words = load_four(right_tiles, right_place + offset)
            held = group * LANES
            left_column[held], right_row[held] = left_words[0], right_words[0]
            left_column[held + 1], right_row[held + 1] = left_words[1], right_words[1]
            left_column[held + 2], right_row[held + 2] = left_words[2], right_words[2]
            left_column[held + 3], right_row[held + 3] = left_words[3], right_words[3]
        for i in range(side):
            for j in range(side):
                sums[i * side + j] = multiply_add(left_column[i], right_row[j], sums[i * side + j])

    return device_function(multiply)


def write_source(tile: Tile) -> Kernel:
    """Return the device function that stores a thread's sums; `row` and `column` are the place of its first one."""
    side = tile.thread
    groups = side // LANES
    step = tile.group_step

    def write(sums: DeviceArray, product: DeviceArray, row: DeviceWord, column: DeviceWord, size: DeviceWord) -> None:
        for i in range(side):
            row_start = u32(u32(row + u32(i // LANES * step + i % LANES)) * size + column)
            for group in range(groups):
                held = i * side + group * LANES
                words = (sums[held], sums[held + 1], sums[held + 2], sums[held + 3])
                store_four(product, u32(row_start + u32(group * step)), words)

    return device_function(write)


@cache
def matmul_kernel(tile: Tile) -> Kernel:
    """Return the compiled-on-first-launch kernel for one tile shape."""
    return cuda.jit(matmul_source(tile))
