from __future__ import annotations

import sys
from threading import Barrier, Thread
from typing import TYPE_CHECKING

import numpy as np
import pytest

from smoke_kernels.backend import numba_cuda_submodule

if TYPE_CHECKING:
    from collections.abc import Iterator

THREADS, ROUNDS = 16, 100


@pytest.fixture
def _restless() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.usefixtures("_restless")
def test_all_threads_of_a_block_share_one_array_however_they_are_scheduled() -> None:
    for _ in range(ROUNDS):
        block = numba_cuda_submodule("simulator.kernelapi").FakeCUDAShared(0)
        start = Barrier(THREADS)
        seen: list[int] = []

        def ask(block: object = block, start: Barrier = start, seen: list[int] = seen) -> None:
            start.wait()
            seen.append(id(block.array(shape=8, dtype=np.float32)))  # type: ignore[attr-defined]

        threads = [Thread(target=ask) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(seen)) == 1
