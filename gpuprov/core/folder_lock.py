"""A folder that one process at a time may change: the lock of flock(1), which scripts take as well."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def folder_lock(folder: Path, *, waits: bool) -> Iterator[None]:
    """Hold the lock of a folder for the block.

    Args:
        folder: It must be there.
        waits: For who holds it, instead of an error.

    Raises:
        BlockingIOError: Somebody holds it.
        OSError: There is no such folder.
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        yield
    finally:
        os.close(held)
