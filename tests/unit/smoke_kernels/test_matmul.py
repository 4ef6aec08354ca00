from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from smoke_kernels.backend import poisoned, to_device, u32
from smoke_kernels.golden import check_digests, find_golden
from smoke_kernels.hashing import digest
from smoke_kernels.matmul import run
from smoke_kernels.matmul.inputs import LARGEST_ENTRY, LARGEST_SIZE, exact_product, factors, padded_flat
from smoke_kernels.matmul.kernel import lane_place, matmul_kernel
from smoke_kernels.matmul.run import golden_digest, prove_product, run_matmul
from smoke_kernels.matmul.tiles import GPU_TILE, SIMULATOR_TILE, Tile
from smoke_kernels.options import Options
from smoke_kernels.regenerate import matmul_entry

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZE = 48

Matrices = tuple["NDArray[np.float32]", "NDArray[np.float32]", "NDArray[np.float32]"]


@pytest.fixture
def matrices() -> Matrices:
    left, right = factors(SIZE, seed=3)
    return left, right, exact_product(left, right)


def failed_checks(left: NDArray[np.float32], right: NDArray[np.float32], product: NDArray[np.float32]) -> set[str]:
    golden, _ = golden_digest(left, right, seed=3)
    checks = (*check_digests([digest(product.view(np.uint32))], golden), *prove_product(left, right, product))
    return {check.name for check in checks if not check.passed}


def test_float32_holds_every_partial_sum_exactly() -> None:
    assert LARGEST_ENTRY**2 * LARGEST_SIZE < 2**24


def test_the_factors_are_small_integers_of_both_signs() -> None:
    for factor in factors(SIZE, seed=3):
        assert set(np.unique(factor)) == set(range(-LARGEST_ENTRY, LARGEST_ENTRY + 1))


def test_the_reference_is_the_integer_product(matrices: Matrices) -> None:
    left, right, product = matrices
    assert np.array_equal(product.astype(np.int64), left.astype(np.int64) @ right.astype(np.int64))


@pytest.mark.parametrize(
    ("tile", "size"),
    [
        (SIMULATOR_TILE, 48),
        (SIMULATOR_TILE, 64),
        (Tile(block=32, depth=8, thread=8), 40),
        (Tile(block=64, depth=8, thread=8), 64),
    ],
)
def test_the_kernel_gives_the_bits_of_numpy(tile: Tile, size: int) -> None:
    left, right = factors(size, seed=3)
    padded = tile.padded(size)
    product = poisoned(padded * padded).view(np.float32)
    grid = (padded // tile.block, padded // tile.block)
    arrays = to_device(padded_flat(left.T, padded)), to_device(padded_flat(right, padded))
    matmul_kernel(tile)[grid, tile.threads](*arrays, product, u32(padded))
    result = product.copy_to_host().reshape(padded, padded)[:size, :size]
    assert result.tobytes() == exact_product(left, right).tobytes()


@pytest.mark.parametrize("tile", [SIMULATOR_TILE, GPU_TILE])
def test_a_tile_splits_evenly(tile: Tile) -> None:
    assert tile.threads * tile.vectors_per_thread * 4 == tile.block * tile.depth
    assert tile.threads_across % tile.lanes_across == 0
    assert tile.threads_across % tile.lanes_down == 0
    assert tile.depth % 8 == 0
    assert (tile.padded(1), tile.padded(tile.block), tile.padded(tile.block + 1)) == (
        tile.block,
        tile.block,
        2 * tile.block,
    )


@pytest.mark.parametrize("tile", [SIMULATOR_TILE, GPU_TILE])
def test_lanes_lie_so_that_those_close_by_read_the_same_vectors(tile: Tile) -> None:
    lanes = tile.lanes_down * tile.lanes_across
    places = [lane_place(lane, 2 * tile.lanes_across) for lane in range(lanes)]
    assert set(places) == {(row, column) for row in range(tile.lanes_down) for column in range(tile.lanes_across)}
    assert all(places[lane][1] == places[lane + 1][1] for lane in range(0, lanes, 2))
    assert all(places[lane][0] == places[lane + 2][0] for lane in range(0, lanes, 4))
    if tile == GPU_TILE:
        assert places == [((lane // 16) * 2 + lane % 2, (lane % 16) // 2) for lane in range(32)]


@pytest.mark.parametrize("size", [64, 128, 256])
def test_the_shipped_golden_values_are_those_of_numpy(size: int) -> None:
    assert find_golden("matmul", seed=1, size=size) == matmul_entry(size, seed=1)


def test_a_right_product_passes(matrices: Matrices) -> None:
    assert failed_checks(*matrices) == set()


@pytest.mark.parametrize("place", [(0, 0), (17, 31), (47, 47)])
@pytest.mark.parametrize("change", [1.0, -1.0, 128.0])
def test_a_changed_element_is_caught_by_both_proofs(matrices: Matrices, place: tuple[int, int], change: float) -> None:
    left, right, product = matrices
    product[place] += np.float32(change)
    assert failed_checks(left, right, product) == {"digest", "freivalds"}


@pytest.mark.parametrize("bit", range(32))
def test_a_flipped_bit_is_caught(matrices: Matrices, bit: int) -> None:
    left, right, product = matrices
    product.view(np.uint32)[5, 9] ^= np.uint32(1 << bit)
    failed = failed_checks(left, right, product)
    assert "digest" in failed
    assert len(failed) == 2 or product[5, 9] == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.5, 1e30])
def test_a_value_that_is_no_sum_of_products_is_caught(matrices: Matrices, value: float) -> None:
    left, right, product = matrices
    product[3, 4] = value
    assert failed_checks(left, right, product) == {"digest", "entries"}


def test_all_nan_is_caught(matrices: Matrices) -> None:
    left, right, product = matrices
    product[:] = np.nan
    assert failed_checks(left, right, product) == {"digest", "entries"}


def test_swapped_rows_are_caught(matrices: Matrices) -> None:
    left, right, product = matrices
    product[[1, 2]] = product[[2, 1]]
    assert failed_checks(left, right, product) == {"digest", "freivalds"}


def test_a_golden_value_that_follows_the_fault_does_not_fool_freivalds(matrices: Matrices) -> None:
    left, right, product = matrices
    product[7, 7] += 2
    assert [check.passed for check in prove_product(left, right, product)] == [True, False]


class _IdleKernel:
    """A kernel whose launches from `first_idle` on do nothing, so that its output buffer keeps what was there."""

    def __init__(self, tile: Tile, *, first_idle: int) -> None:
        self.kernel = matmul_kernel(tile)
        self.launches = 0
        self.first_idle = first_idle

    def __getitem__(self, configuration: object) -> _IdleKernel:
        self.kernel = self.kernel[configuration]
        return self

    def __call__(self, *arguments: object) -> None:
        if self.launches < self.first_idle:
            self.kernel(*arguments)
        self.launches += 1


@pytest.mark.parametrize("first_idle", [0, 1])
def test_a_stale_output_buffer_is_caught(monkeypatch: pytest.MonkeyPatch, first_idle: int) -> None:
    monkeypatch.setattr(run, "matmul_kernel", lambda tile: _IdleKernel(tile, first_idle=first_idle))
    result = run_matmul(Options(size=64, repeats=2))
    assert result.proof is not None
    failed = {check.name for check in result.proof.checks if not check.passed}
    assert not result.passed
    assert {"digest", "entries"} <= failed
    assert ("repeats" in failed) == (first_idle == 1)


def test_a_size_beyond_the_table_is_computed_and_says_so() -> None:
    result = run_matmul(Options(size=9, seed=4, repeats=1))
    assert result.passed
    assert result.proof is not None
    assert result.proof.golden_source == "computed"
    assert result.rate is None
