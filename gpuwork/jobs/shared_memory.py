"""Files in /dev/shm, which count as memory of the node and stay when whoever wrote them has ended."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuwork.jobs.leftovers import SLURM_VARIABLE, VARIABLE, find_values

if TYPE_CHECKING:
    from collections.abc import Mapping

_OWN: Final = b"\0-m\0gpuwork."  # workers, and what waits for a run
PLACE: Final = Path("/dev/shm")  # noqa: S108  (what is looked through)


def drop_shared_memory(marks: Mapping[str, str], *, since: float, place: Path = PLACE) -> None:
    """Remove the files of this account that were written since a moment, unless somebody else may need them.

    Nothing tells whose they are: a program may close such a file and open it again by its name. So they stay where
    another job is on this node, or another process of the account, such as a notebook, and where the account is root.
    """
    if os.geteuid() == 0 or is_needed(marks):
        return
    with suppress(OSError):
        for path in place.iterdir():
            _drop(path, since)


def is_needed(marks: Mapping[str, str]) -> bool:
    """Whether another job is on this node, or a process of this account that no job began."""
    if any(find_values(variable) - {marks.get(variable, "")} for variable in (VARIABLE, SLURM_VARIABLE)):
        return True
    above, process = set(), os.getpid()
    with suppress(OSError, ValueError, IndexError):
        while process:
            above.add(process)
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            is_ours = folder.name.isdecimal() and folder.stat().st_uid == os.geteuid()
            if is_ours and int(folder.name) not in above and _OWN not in (folder / "cmdline").read_bytes():
                return True
    return False


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
