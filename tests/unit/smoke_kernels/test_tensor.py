"""The product on tensor cores: exact in any order, laid out over a warp as PTX wants it, and asked where it can be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from smoke_kernels.backend import SIMULATED
from smoke_kernels.matmul import tensor
from smoke_kernels.matmul.run import run_matmul
from smoke_kernels.matmul.tensor import (
    NARROW,
    WARP,
    WIDE,
    check_tensor_cores,
    join_fragments,
    tensor_factors,
    tensor_source,
)
from smoke_kernels.multiprocessors import Census
from smoke_kernels.options import Options
from tests.unit.smoke_kernels.spoiling import Spoiling

pytestmark = pytest.mark.slow


def test_no_sum_is_rounded_in_any_order() -> None:
    left, right = tensor_factors(256, seed=1)
    for factor, wide in ((left, left[:, ::2]), (right, right[:, 1::2])):
        assert np.array_equal(factor, np.rint(factor))
        assert np.bitwise_or.reduce(np.abs(wide).astype(np.int64), axis=None) == WIDE - 1
        assert {value > 0 for value in wide.flat} == {True, False}
    most = np.abs(left.astype(np.float64)) @ np.abs(right.T.astype(np.float64))
    assert most.max() < (WIDE - 1) * (NARROW - 1) * 256 < 2**21
    assert (left.astype(np.float64) @ right.T.astype(np.float64)).all()  # no zero, which has two signs


def test_the_lanes_of_a_warp_hold_each_element_once() -> None:
    # Elements are numbered as PTX numbers them; each lane's words are those that the kernel would load.
    left = np.arange(256, dtype=np.float16).reshape(16, 16)
    right = np.arange(256, 384, dtype=np.float16).reshape(8, 16)  # by columns
    left_words, right_words = left.view(np.uint32), right.view(np.uint32)
    words = np.array(
        [
            [
                left_words[group, pair], left_words[group + 8, pair],
                left_words[group, pair + 4], left_words[group + 8, pair + 4],
                right_words[group, pair], right_words[group, pair + 4],
            ]
            for group, pair in (divmod(lane, 4) for lane in range(WARP))
        ],
        np.uint32,
    )  # fmt: skip
    joined_left, joined_right = join_fragments(words)
    assert np.array_equal(joined_left, left)
    assert np.array_equal(joined_right, right.T)
    joined_left, _ = join_fragments(np.ascontiguousarray(words[:, [0, 2, 1, 3, 4, 5]]))
    assert not np.array_equal(joined_left, left)


def test_the_product_has_a_place_in_the_proof_of_matmul() -> None:
    result = run_matmul(Options(size=16, repeats=1))
    assert result.proof is not None
    check = next(check for check in result.proof.checks if check.name == "tensor-cores")
    assert (check.passed, SIMULATED) == (True, True)
    assert check.evidence == "2 of 2 blocks agree in 16 x 8 sums of 32 float16 products"


@pytest.mark.parametrize("bit", [0, 22, 23, 31])
def test_a_wrong_bit_is_seen_and_its_multiprocessor_named(monkeypatch: pytest.MonkeyPatch, bit: int) -> None:

    def spoil(product: Any) -> None:
        words = product.view(np.uint32)
        words[100] ^= np.uint32(1 << bit)

    monkeypatch.setattr(tensor, "_tensor_kernel", lambda: Spoiling(tensor_source, first=50, spoil=spoil))
    census = Census()
    assert not check_tensor_cores(census, seed=1).passed
    assert census.wrong == {50: 1}


def test_an_instruction_that_does_not_add_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor, "multiply_add", lambda _words, sums: sums)
    assert not check_tensor_cores(Census(), seed=1).passed


def test_a_gpu_without_the_instruction_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor, "SIMULATED", False)
    gpu = SimpleNamespace(compute_capability=(7, 5))
    monkeypatch.setattr(tensor, "cuda", SimpleNamespace(get_current_device=lambda: gpu))
    census = Census()
    check = check_tensor_cores(census, seed=1)
    assert (check.passed, check.evidence) == (True, "not asked: compute capability 7.5, not 8.0")
    assert census.blocks == 0
