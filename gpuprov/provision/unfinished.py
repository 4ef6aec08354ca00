"""What is being made in the cache; its name ends with the number of the process that makes it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path


def unfinished_folder(cache: Path, kind: str) -> Path:
    """A new folder for something of this kind."""
    _remove_those_of_the_dead(cache, kind)
    return Path(tempfile.mkdtemp(prefix=f".{kind}-", suffix=f"-{os.getpid()}", dir=cache))


def unfinished_file(cache: Path, kind: str) -> Path:
    """Where a tar of this kind can be written."""
    _remove_those_of_the_dead(cache, kind)
    return cache / f".{kind}-{os.getpid()}.tar"


def _remove_those_of_the_dead(cache: Path, kind: str) -> None:
    """Make the cache, and remove what processes that were killed have left in it."""
    cache.mkdir(parents=True, exist_ok=True)
    for left in cache.glob(f".{kind}-*"):
        if not Path("/proc", left.stem.rpartition("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
            with contextlib.suppress(OSError):
                left.unlink()
