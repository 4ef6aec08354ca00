"""Files in /dev/shm, which count as memory of the node and stay when whoever wrote them has ended."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuwork.jobs.leftovers import SLURM_VARIABLE, VARIABLE, find_values

if TYPE_CHECKING:
    from collections.abc import Mapping

_OWN: Final = b"\0-m\0gpuwork."  # workers, and what waits for a run
_LIMIT_S: Final = 60.0
PLACE: Final = Path("/dev/shm")  # noqa: S108  (what is looked through)


def drop_shared_memory(marks: Mapping[str, str], *, since: float, place: Path = PLACE) -> None:
    """Remove the files of this account that were written since a moment, unless somebody else may need them.

    Nothing tells whose they are: a program may close such a file and open it again by its name. So they stay where
    another job is on this node, or another process of the account, such as a notebook, and where the account is root.
    """
    if os.geteuid() == 0 or is_needed(marks):
        return
    # However deep folders are; those that still have older files stay
    written = ["-mindepth", "1", "-xdev", "-uid", str(os.geteuid()), "-newermt", f"@{since:.3f}"]
    argv = ["find", str(place), *written, "-delete"]
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(argv, check=False, capture_output=True, timeout=_LIMIT_S)  # noqa: S603


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
