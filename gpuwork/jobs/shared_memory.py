"""Files in /dev/shm, which count as memory of the node and stay when whoever wrote them has ended."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuwork.jobs.leftovers import SLURM_VARIABLE, VARIABLE, find_values

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACE: Final = Path("/dev/shm")  # noqa: S108  (what is looked through)


def drop_shared_memory(marks: Mapping[str, str], *, since: float, place: Path = PLACE) -> None:
    """Remove the files of this account that were written since a moment, unless another job is on this node.

    Nothing tells whose they are: a program may close such a file and open it again by its name.
    """
    if any(find_values(variable) - {marks.get(variable, "")} for variable in (VARIABLE, SLURM_VARIABLE)):
        return
    with suppress(OSError):
        for path in place.iterdir():
            _drop(path, since)


def _drop(path: Path, since: float) -> None:
    with suppress(OSError):  # another account's, or gone
        status = path.lstat()
        if status.st_uid != os.geteuid() or status.st_mtime < since:
            return
        if path.is_dir() and not path.is_symlink():
            for below in path.iterdir():
                _drop(below, since)
            path.rmdir()
        else:
            path.unlink()
