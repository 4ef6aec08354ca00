from __future__ import annotations

import numpy as np
import pytest

from smoke_kernels import hashing
from smoke_kernels.backend import to_device
from smoke_kernels.hashing import counter_words, digest, mix, mix_one
from smoke_kernels.hashing_device import device_digest, mix_word


def test_mix_maps_no_two_words_to_one() -> None:
    words = np.arange(1 << 18, dtype=np.uint32) * np.uint32(0x10001)
    assert len(np.unique(mix(words))) == len(words)


@pytest.mark.parametrize("word", [0, 1, 0x7FFFFFFF, 0x80000000, 0xDEADBEEF, 0xFFFFFFFF])
def test_mix_is_the_same_on_host_and_device(word: int) -> None:
    assert mix_word(word) == mix_one(word)


def test_words_depend_on_their_place_alone() -> None:
    whole = counter_words(100, seed=5, stream=2)
    assert np.array_equal(whole[40:], counter_words(60, seed=5, stream=2, start=40))
    assert not np.array_equal(whole, counter_words(100, seed=5, stream=3))
    assert not np.array_equal(whole, counter_words(100, seed=6, stream=2))


@pytest.mark.parametrize("place", [0, 1, 500, 998, 999])
@pytest.mark.parametrize("bit", [0, 15, 31])
def test_a_flipped_bit_changes_the_digest(place: int, bit: int) -> None:
    words = counter_words(1000, seed=1, stream=1)
    before = digest(words)
    words[place] ^= np.uint32(1 << bit)
    assert digest(words) != before


def test_swapped_words_change_the_digest() -> None:
    words = counter_words(1000, seed=1, stream=1)
    swapped = words.copy()
    swapped[[3, 700]] = words[[700, 3]]
    assert digest(swapped) != digest(words)


def test_the_digest_is_one_number_whatever_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    words = counter_words(1000, seed=1, stream=1)
    before = digest(words)
    monkeypatch.setattr(hashing, "_CHUNK_WORDS", 7)
    assert digest(words) == before


def test_the_device_digests_the_rows_and_skips_the_padding() -> None:
    words = counter_words(12 * 20, seed=1, stream=1)
    on_device = device_digest(to_device(words), rows=12, columns=9, stride=20)
    assert on_device == digest(words.reshape(12, 20)[:, :9])
