"""The memory of a real GPU: what one process wrote, another one's kernel looks for, before and after a scrub."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
SECRET = 0x5EC2E701
WRITE = f"""
from smoke_kernels.device import select_device
from smoke_kernels.scrub import GpuMemory, take_all, write
select_device(0)
pieces = take_all(GpuMemory())
for piece in pieces:
    write(piece, {SECRET})
print(sum(piece.size for piece in pieces))
"""
LOOK = f"""
from smoke_kernels.device import select_device
from smoke_kernels.scrub import GpuMemory, count_words, take_all
select_device(0)
print(sum(count_words(piece, {SECRET}) for piece in take_all(GpuMemory())))
"""


def run(*argv: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, *argv],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_a_kernel_finds_nothing_of_the_one_before_after_a_scrub(record_property: Callable[[str, object], None]) -> None:
    written = int(run("-c", WRITE))
    assert written > 1 << 28, "a GiB at least"
    record_property("words found without a scrub", run("-c", LOOK))  # a driver may clear memory itself
    run("-c", WRITE)
    said = run("-m", "smoke_kernels.scrub")
    assert said.startswith("scrubbed "), said
    assert int(said.split()[1]) >= written * 4 * 0.99
    assert run("-c", LOOK) == "0"
