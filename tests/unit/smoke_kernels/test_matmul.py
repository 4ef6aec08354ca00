from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from smoke_kernels.backend import poisoned, to_device, u32
from smoke_kernels.golden import check_digests, find_golden
from smoke_kernels.hashing import digest
from smoke_kernels.matmul import device, run
from smoke_kernels.matmul.inputs import LARGEST_ENTRY, LARGEST_SIZE, exact_product, factors, padded_flat
from smoke_kernels.matmul.kernel import lane_place, matmul_kernel
from smoke_kernels.matmul.mantissas import LARGEST_DEPTH, NARROW_BITS, WIDE_BITS, rounded_product, tile_factors
from smoke_kernels.matmul.run import golden_digest, prove_product, run_matmul
from smoke_kernels.matmul.tiles import GPU_TILE, SIMULATOR_TILE, Tile
from smoke_kernels.multiprocessors import Census, owners_of
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
        pytest.param(Tile(block=64, depth=8, thread=8), 64, marks=pytest.mark.slow),
    ],
)
def test_the_kernel_gives_the_bits_of_numpy(tile: Tile, size: int) -> None:
    left, right = factors(size, seed=3)
    padded = tile.padded(size)
    product = poisoned(padded * padded).view(np.float32)
    grid = (padded // tile.block, padded // tile.block)
    arrays = to_device(padded_flat(left.T, padded)), to_device(padded_flat(right, padded))
    owners = owners_of(grid[0] * grid[1])
    matmul_kernel(tile)[grid, tile.threads](*arrays, product, owners, u32(padded))
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


@pytest.mark.slow
@pytest.mark.parametrize("first_idle", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_stale_output_buffer_is_caught(monkeypatch: pytest.MonkeyPatch, first_idle: int) -> None:
    monkeypatch.setattr(device, "matmul_kernel", lambda tile: _IdleKernel(tile, first_idle=first_idle))
    result = run_matmul(Options(size=64, repeats=2))
    assert result.proof is not None
    failed = {check.name for check in result.proof.checks if not check.passed}
    assert not result.passed
    assert {"digest", "entries"} <= failed
    assert ("repeats" in failed) == (first_idle == 1)


@pytest.mark.slow
def test_a_size_beyond_the_table_is_computed_and_says_so() -> None:
    result = run_matmul(Options(size=9, seed=4, repeats=1))
    assert result.passed
    assert result.proof is not None
    assert result.proof.golden_source == "computed"
    assert result.rate is None


class _SpoilingKernel(_IdleKernel):
    """A kernel whose block b runs on multiprocessor 90 + b, and whose output is spoiled at a place."""

    def __init__(self, tile: Tile, *, place: int) -> None:
        super().__init__(tile, first_idle=1 << 30)
        self.place = place

    def __call__(self, *arguments: Any) -> None:
        super().__call__(*arguments)
        _, _, product, owners, _ = arguments
        for block in range(owners.size):
            owners[block] = 90 + block
        words = product.view(np.uint32)
        words[self.place] ^= np.uint32(1)


@pytest.mark.slow
def test_who_made_a_wrong_element_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    padded = 2 * SIMULATOR_TILE.block
    place = 3 * padded + SIMULATOR_TILE.block + 9  # row 3, in the second tile of the first row of tiles
    monkeypatch.setattr(device, "matmul_kernel", lambda tile: _SpoilingKernel(tile, place=place))
    left, right = factors(SIMULATOR_TILE.block + 16, seed=3)
    golden, _ = golden_digest(left, right, seed=3)
    census = Census()
    run._multiply(left, right, Options(), repeats=2, golden=golden, census=census)
    assert (census.wrong, census.seen, census.blocks) == ({91: 1}, {90, 91, 92, 93}, 4)


@pytest.mark.parametrize("bit", [0, 31, *(pytest.param(bit, marks=pytest.mark.slow) for bit in (11, 22))])
def test_a_wrong_bit_among_full_mantissas_is_caught(monkeypatch: pytest.MonkeyPatch, bit: int) -> None:
    class Spoiling(_IdleKernel):
        def __call__(self, *arguments: Any) -> None:
            super().__call__(*arguments)
            words = arguments[2].view(np.uint32)
            words[words.size - 1] ^= np.uint32(1 << bit)
            arguments[3][3] = 33

    monkeypatch.setattr(device, "matmul_kernel", lambda tile: Spoiling(tile, first_idle=9))
    census = Census()
    check = run._multiply_mantissas(census, runs=2)
    assert (check.name, check.passed) == ("mantissas", False)
    assert check.evidence == "6 of 8 tiles of 32 rounded sums of full mantissas agree"
    assert census.wrong == {33: 2}


def test_the_kernel_rounds_as_a_gpu_does() -> None:
    assert run._multiply_mantissas(Census(), runs=1).passed
    # Rounded twice, as numpy's float32 does, or added in another order, it is another result.
    left, right = tile_factors(8, 32, seed=1)
    expected = rounded_product(left, right)
    twice = np.zeros_like(expected)
    for k in range(32):
        twice += np.multiply.outer(left[:, k], right[k])
    assert not np.array_equal(twice, expected)
    assert not np.array_equal(rounded_product(left[:, ::-1], right[::-1]), expected)


def test_full_mantissas_are_full_and_their_sums_fit_a_float64() -> None:
    left, right = tile_factors(16, 64, seed=5)
    for factor, wide in ((left, left[:, ::2]), (right.T, right.T[:, 1::2])):
        assert {len(f"{int(abs(value)):b}") for value in wide.flat} == {WIDE_BITS}
        assert {len(f"{int(abs(value)):b}") for value in factor.flat} == {WIDE_BITS, NARROW_BITS}
        assert len({int(abs(value)) & 1 for value in wide.flat}) == len({value > 0 for value in wide.flat}) == 2
    assert 2 ** (WIDE_BITS + NARROW_BITS) * LARGEST_DEPTH < 2**53
    assert run.MANTISSA_SIZE <= LARGEST_DEPTH


def test_rounded_sums_are_those_of_exact_arithmetic() -> None:
    left, right = tile_factors(3, 40, seed=2)
    product = rounded_product(left, right)
    for row, column in np.ndindex(3, 3):
        total = np.float32(0)
        for k in range(40):
            exact = int(total) + int(left[row, k]) * int(right[k, column])
            # Python rounds an integer to a float64 correctly; it has at most 53 bits, so that is exact.
            assert int(float(exact)) == exact
            total = np.float32(float(exact))
        assert product[row, column] == total
