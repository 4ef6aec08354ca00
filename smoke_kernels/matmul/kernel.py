"""The matmul kernel: register-tiled, through shared memory, one source for the simulator and every GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoke_kernels.backend import ALIGNMENT, DeviceArray, Kernel, cuda, u32

if TYPE_CHECKING:
    from collections.abc import Callable

    from smoke_kernels.matmul.tiles import Tile


def matmul_source(tile: Tile) -> Callable[[DeviceArray, DeviceArray, DeviceArray, int], None]:
    """Return the kernel's source for one tile shape: product = left_transposed.T @ right, all (size, size) float32, flat.

    The left matrix comes transposed, so that both tiles are copied the same way: rows of consecutive floats.
    `size` is a multiple of tile.block and of tile.depth. All indices are unsigned: no sign handling, fewer registers.
    """
    block = tile.block
    depth = tile.depth
    side = tile.thread
    half = side // 2
    across = tile.threads_across
    threads = tile.threads
    tile_floats = block * depth
    floats_per_thread = tile_floats // threads
    sums_per_thread = side * side

    def matmul(left_transposed: DeviceArray, right: DeviceArray, product: DeviceArray, size: int) -> None:
        left_tile = cuda.shared.array(tile_floats, np.float32, alignment=ALIGNMENT)
        right_tile = cuda.shared.array(tile_floats, np.float32, alignment=ALIGNMENT)
        sums = cuda.local.array(sums_per_thread, np.float32)
        left_column = cuda.local.array(side, np.float32)
        right_row = cuda.local.array(side, np.float32)

        thread = u32(cuda.threadIdx.x)
        first_row = u32(u32(cuda.blockIdx.y) * u32(block))
        first_column = u32(u32(cuda.blockIdx.x) * u32(block))
        thread_row = u32(thread // u32(across))
        thread_column = u32(thread % u32(across))
        for i in range(sums_per_thread):
            sums[i] = np.float32(0)
        for base in range(u32(0), size, u32(depth)):
            for i in range(floats_per_thread):
                place = u32(thread + u32(i * threads))
                source = u32(u32(base + place // u32(block)) * size + place % u32(block))
                left_tile[place] = left_transposed[u32(source + first_row)]
                right_tile[place] = right[u32(source + first_column)]
            cuda.syncthreads()
            for k in range(depth):
                for i in range(half):
                    left_column[i] = left_tile[u32(u32(k * block) + thread_row * u32(half) + u32(i))]
                    left_column[i + half] = left_tile[u32(u32(k * block + block // 2) + thread_row * u32(half) + u32(i))]
                    right_row[i] = right_tile[u32(u32(k * block) + thread_column * u32(half) + u32(i))]
                    right_row[i + half] = right_tile[u32(u32(k * block + block // 2) + thread_column * u32(half) + u32(i))]
                for i in range(side):
                    for j in range(side):
                        sums[i * side + j] += left_column[i] * right_row[j]
            cuda.syncthreads()
        for i in range(side):
            row = u32(first_row + thread_row * u32(half) + u32(i % half + i // half * (block // 2)))
            for j in range(side):
                column = u32(first_column + thread_column * u32(half) + u32(j % half + j // half * (block // 2)))
                product[u32(row * size + column)] = sums[i * side + j]

    return matmul


def matmul_kernel(tile: Tile) -> Kernel:
    """Return the compiled-on-first-launch kernel for one tile shape."""
    return cuda.jit(matmul_source(tile))
