"""One run of the tests on a machine's engines at a time: a second would sweep away what the first has made."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = Path("/run/lock/gpuprov-tests.lock")
BASE_LOCK = Path("/run/lock/gpuprov-tests-base.lock")


@contextmanager
def only_run(path: Path = LOCK) -> Iterator[None]:
    """Hold the lock for the block, and end the whole run where another one holds it; the kernel frees a killed run's.

    Who is not root has no engine that root's tests use, or may not open the file: nothing is locked then.
    """
    if os.geteuid() != 0 or not path.parent.is_dir():
        yield
        return
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pytest.exit(f"the engines of this machine are used by another run of these tests: {file.read()}", 3)
        file.truncate(0)
        file.write(f"process {os.getpid()} in {Path.cwd()}\n")
        file.flush()
        yield


@contextmanager
def one_at_a_time(path: Path = BASE_LOCK) -> Iterator[None]:
    """Other processes of a parallel run wait for the block."""
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
