"""Memory that one person wrote to and freed: without a scrub the next one's kernel finds it, after a scrub it does not.

The simulator's arrays lie in one block of memory here, as those of a GPU do: SIMULATED, but the kernels are the same.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from smoke_kernels.errors import KernelError
from smoke_kernels.scrub import count_words, main, scrub, take_all, write

WORDS = 1 << 12
SECRET = 0x5EC2E701


class Block:
    """The memory of a GPU whose pieces lie one after the other."""

    def __init__(self, *, held: int = 0) -> None:
        self.words = np.zeros(WORDS, np.uint32)
        self.held = held
        self.begin = held

    def free_bytes(self) -> int:
        return (WORDS - self.begin) * 4

    def allocate(self, words: int) -> Any:
        if self.begin + words > WORDS:
            raise MemoryError
        piece = self.words[self.begin : self.begin + words]
        self.begin += words
        return importlib.import_module("numba.cuda.simulator.cudadrv.devicearray").FakeCUDAArray(piece)

    def free_all(self) -> None:
        """What the end of a program does: the memory is free, and nothing is erased."""
        self.begin = self.held


def found_by_the_next_one(memory: Block) -> int:
    found = sum(count_words(piece, SECRET) for piece in take_all(memory))
    memory.free_all()
    return found


def test_the_next_persons_kernel_finds_nothing_after_a_scrub() -> None:
    memory = Block()
    for piece in take_all(memory):
        write(piece, SECRET)
    memory.free_all()
    assert found_by_the_next_one(memory) == WORDS, "the kernel that looks can see it"
    assert scrub(memory) == WORDS * 4
    memory.free_all()
    assert found_by_the_next_one(memory) == 0


def test_what_a_program_holds_is_left_to_it() -> None:
    memory = Block(held=100)
    memory.words[:] = SECRET
    scrub(memory)
    assert (memory.words[:100] == SECRET).all()
    assert (memory.words[100 : 100 + ((WORDS - 100) // 16) * 16] == 0).all()


def test_a_word_that_cannot_be_overwritten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Block()
    monkeypatch.setattr("smoke_kernels.scrub.write", lambda piece, word: write(piece[1:], word))
    memory.words[:] = SECRET
    with pytest.raises(KernelError, match="not zero"):
        scrub(memory)


def test_memory_that_cannot_be_had_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smoke_kernels.scrub._SLACK_BYTES", 0)
    memory = Block()
    monkeypatch.setattr(memory, "free_bytes", lambda: WORDS * 8)
    with pytest.raises(KernelError, match="not all free memory"):
        scrub(memory)
    with pytest.raises(KernelError, match="not all free memory"):
        scrub(Block(held=WORDS))


def test_the_program_says_that_it_was_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    assert capsys.readouterr().out.startswith("SIMULATED: scrubbed 4096 bytes")


def test_without_a_gpu_it_fails_in_one_line() -> None:
    program = [sys.executable, "-m", "smoke_kernels.scrub"]
    done = subprocess.run(
        program, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1
