"""Whether a run has used up the processes that its node may have.

Nothing else of the node can start any more then, not even what `gpuprov` runs there to end it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuwork.control_group import PROC, find_groups, read_number, read_piece
from gpuwork.jobs.leftovers import find_tagged

if TYPE_CHECKING:
    from pathlib import Path

USED_UP: Final = "used up the processes that its node has for jobs"
FULL: Final = 0.95
PATIENCE_S: Final = 3.0
_THREADS: Final = 17  # of what stands behind the name in `stat`


class Crowding:
    """What a run takes of the processes that the control groups of this process may have, threads included."""

    def __init__(self, run: str, *, proc: Path = PROC) -> None:
        """Read the limits.

        Args:
            run: As `VARIABLE` names it.
            proc: Where the kernel tells of processes.
        """
        self._run = run
        self._proc = proc
        folders = dict.fromkeys(folder for group in find_groups("pids", proc) for folder in group.folders())
        limits = ((folder / "pids.current", read_number(folder / "pids.max")) for folder in folders)
        self._limits = [(file, limit) for file, limit in limits if limit is not None]
        self._since: float | None = None
        self.reason: str | None = None

    def look(self) -> bool:
        """Whether there has been no room for seconds, and half of it or more is this run's."""
        full = next((limit for file, limit in self._limits if (read_number(file) or 0) >= FULL * limit), None)
        if full is None:
            self._since = None
            return False
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since < PATIENCE_S:
            return False
        mine = sum(self._count_threads(pid) for pid in find_tagged(self._run))
        if 2 * mine >= full:
            self.reason = f"{USED_UP} ({mine} of {full})"
        return self.reason is not None

    def _count_threads(self, pid: int) -> int:
        with suppress(IndexError, ValueError):  # it ended
            return int(read_piece(self._proc / f"{pid}/stat").rpartition(b")")[2].split()[_THREADS])
        return 0
