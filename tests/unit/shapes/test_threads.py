"""Shapes are read by many threads at once: of hosts, of engines, of nodes."""

from __future__ import annotations

import subprocess
import sys

import pytest

TRIES = 8  # without the lock of shapes/base.py, half of them end with SIGSEGV
READ_ALL_AT_ONCE = """
import sys
from contextlib import suppress
from threading import Barrier, Thread

import msgspec

from gpuprov.shapes import members, nodes, outcome
from gpuprov.shapes.base import read

sys.setswitchinterval(1e-6)
found = [value for module in (members, outcome, nodes) for value in vars(module).values() if isinstance(value, type)]
for kind in (kind for kind in found if issubclass(kind, msgspec.Struct) and kind.__struct_fields__):
    gate = Barrier(8)

    def go(kind=kind, gate=gate):
        gate.wait()
        with suppress(ValueError):
            read(kind, {name: [] for name in kind.__struct_encode_fields__})

    threads = [Thread(target=go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.slow
def test_many_threads_may_read_a_kind_that_none_has_read_yet() -> None:
    for _ in range(TRIES):
        done = subprocess.run([sys.executable, "-c", READ_ALL_AT_ONCE], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
