from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from smoke_kernels.backend import poisoned, u32
from smoke_kernels.golden import find_golden
from smoke_kernels.hashing import counter_words, digest, stream_key
from smoke_kernels.membw import run
from smoke_kernels.membw.kernel import CHUNK_WORDS, THREADS, copy_kernel, fill_kernel
from smoke_kernels.membw.pattern import STREAM
from smoke_kernels.membw.run import run_membw
from smoke_kernels.multiprocessors import Census, owners_of
from smoke_kernels.options import Options
from smoke_kernels.regenerate import membw_entry

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

QUICK = Options(quick=True, repeats=2)


class _Sabotaged:
    """The copy kernel, with something done to the target after the copy, or in place of it."""

    def __init__(self, sabotage: Callable[[Any, int], None], *, copies: bool = True) -> None:
        self.sabotage = sabotage
        self.copies = copies
        self.launches = 0
        self.kernel: Any = copy_kernel

    def __getitem__(self, configuration: object) -> _Sabotaged:
        self.kernel = copy_kernel[configuration]
        return self

    def __call__(self, source: Any, target: Any, owners: Any, count: int) -> None:
        if self.copies:
            self.kernel(source, target, owners, count)
        self.sabotage(target, self.launches)
        self.launches += 1


def failed_checks(options: Options) -> set[str]:
    result = run_membw(options)
    assert result.proof is not None
    return {check.name for check in result.proof.checks if not check.passed}


def test_the_pattern_and_the_copy_are_the_bits_of_numpy() -> None:
    count = 4 * CHUNK_WORDS
    source, target = poisoned(count), poisoned(count)
    fill_kernel[1, THREADS](source, u32(stream_key(7, STREAM)), u32(count))
    copy_kernel[2, THREADS](source, target, owners_of(2), u32(count))
    expected = counter_words(count, seed=7, stream=STREAM)
    assert np.array_equal(source.copy_to_host(), expected)
    assert np.array_equal(target.copy_to_host(), expected)


@pytest.mark.parametrize("size", [16 << 10, 64 << 10, 1 << 20])
def test_the_shipped_golden_values_are_those_of_numpy(size: int) -> None:
    assert find_golden("membw", seed=1, size=size) == membw_entry(size, seed=1)


def test_a_right_copy_passes() -> None:
    assert failed_checks(QUICK) == set()


@pytest.mark.parametrize("place", [0, 2049, 4095])
def test_a_flipped_bit_is_caught(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    def flip(target: Any, _launch: int) -> None:
        target[place] ^= np.uint32(1)

    monkeypatch.setattr(run, "copy_kernel", _Sabotaged(flip))
    assert failed_checks(QUICK) == {"digest"}


def test_who_copied_a_wrong_word_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = 3
    monkeypatch.setattr(run, "_BLOCKS", blocks)

    class Spoiling(_Sabotaged):
        def __call__(self, source: Any, target: Any, owners: Any, count: int) -> None:
            super().__call__(source, target, owners, count)
            for block in range(blocks):
                owners[block] = 50 + block

    def flip(target: Any, launch: int) -> None:
        if launch:
            target[4 * CHUNK_WORDS + 7] ^= np.uint32(1)
            target[2 * CHUNK_WORDS] ^= np.uint32(1)

    monkeypatch.setattr(run, "copy_kernel", Spoiling(flip))
    census = Census()
    count = 1024 * 4
    golden = digest(counter_words(count, seed=1, stream=STREAM))
    runs = run._copy(4 * count, Options(), repeats=3, golden=golden, census=census)
    assert [found == golden for found in runs.digests] == [True, False, False]
    # Chunk 4 is the second one of block 1; the second wrong copy is not looked into.
    assert census.wrong == {51: 1, 52: 1}
    assert census.seen == {50, 51, 52}


def test_a_nan_is_only_another_word_and_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(target: Any, _launch: int) -> None:
        target[5] = np.float32(np.nan).view(np.uint32)

    monkeypatch.setattr(run, "copy_kernel", _Sabotaged(spoil))
    assert failed_checks(QUICK) == {"digest"}


def test_a_fault_in_one_run_of_two_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def flip(target: Any, launch: int) -> None:
        target[9] ^= np.uint32(launch == 1)

    monkeypatch.setattr(run, "copy_kernel", _Sabotaged(flip))
    assert failed_checks(QUICK) == {"digest", "repeats"}


def test_a_stale_output_buffer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "copy_kernel", _Sabotaged(lambda _target, _launch: None, copies=False))
    assert failed_checks(QUICK) == {"digest"}
