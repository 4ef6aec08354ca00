"""The product in float64: its reference is exact arithmetic, and a wrong bit of any block is seen."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from smoke_kernels.backend import SIMULATED
from smoke_kernels.matmul import doubles
from smoke_kernels.matmul.doubles import check_doubles, doubles_source, entries, fused_product
from smoke_kernels.matmul.run import run_matmul
from smoke_kernels.multiprocessors import Census
from smoke_kernels.options import Options
from tests.unit.smoke_kernels.spoiling import Spoiling

if TYPE_CHECKING:
    from numpy.typing import NDArray

Factors = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


@pytest.fixture
def factors() -> Factors:
    return entries(3, 40, seed=2, stream=1), entries(40, 3, seed=2, stream=2)


def test_entries_use_every_bit_of_a_double(factors: Factors) -> None:
    for factor in factors:
        words = factor.view(np.uint64)
        for bit in (*range(52), 63):
            assert set((words >> np.uint64(bit) & np.uint64(1)).flat) == {0, 1}, bit
        assert {int(np.floor(np.log2(abs(value)))) for value in factor.flat} == set(range(-4, 4))


def test_the_reference_is_that_of_exact_fractions(factors: Factors) -> None:
    left, right = factors
    product = fused_product(left, right)
    for row, column in np.ndindex(3, 3):
        total = 0.0
        for k in range(40):
            total = float(Fraction(left[row, k]) * Fraction(right[k, column]) + Fraction(total))
        assert product[row, column] == total


def test_rounding_twice_or_in_another_order_is_another_result(factors: Factors) -> None:
    left, right = factors
    twice = np.zeros((3, 3))
    for k in range(40):
        twice += np.multiply.outer(left[:, k], right[k])
    assert not np.array_equal(twice, fused_product(left, right))
    assert not np.array_equal(fused_product(left[:, ::-1], right[::-1]), fused_product(left, right))


@pytest.mark.slow
def test_the_product_has_a_place_in_the_proof_of_matmul() -> None:
    result = run_matmul(Options(size=16, repeats=1))
    assert result.proof is not None
    check = next(check for check in result.proof.checks if check.name == "doubles")
    assert (check.passed, SIMULATED) == (True, True)
    assert check.evidence == "2 of 2 blocks agree in 4 x 4 sums of 32 float64 products"


@pytest.mark.parametrize("bit", [0, 20, 51, 52, 63])
def test_a_wrong_bit_is_seen_and_its_multiprocessor_named(monkeypatch: pytest.MonkeyPatch, bit: int) -> None:

    def spoil(product: Any) -> None:
        words = product.view(np.uint64)
        words[words.size - 1] ^= np.uint64(1 << bit)

    monkeypatch.setattr(doubles, "_doubles_kernel", lambda: Spoiling(doubles_source, first=70, spoil=spoil))
    census = Census()
    check = check_doubles(census, seed=1)
    assert (check.passed, census.wrong) == (False, {71: 1})
    assert check.evidence.startswith("1 of 2 blocks agree")


def test_a_kernel_that_does_nothing_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle:
        def __getitem__(self, _configuration: object) -> Any:
            return lambda *_: None

    monkeypatch.setattr(doubles, "_doubles_kernel", Idle)
    assert not check_doubles(Census(), seed=1).passed


def test_a_gpu_that_rounds_twice_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubles, "multiply_add", lambda left, right, total: total + left * right)
    assert not check_doubles(Census(), seed=1).passed
