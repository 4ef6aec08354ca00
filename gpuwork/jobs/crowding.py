"""How many processes a run may have, and whether it has used up those of its node.

Nothing else of the node can start any more then, not even what `gpuprov` runs there to end it; and slurmd and its
helpers, which may be in the control group of the jobs, end if they cannot start a thread.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuwork.control_group import PROC, find_groups, read_number, read_piece
from gpuwork.jobs.leftovers import find_tagged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from threading import Event

USED_UP: Final = "used up the processes that its node has for jobs"
# A run's account may have so much of what the control group may, where the kernel counts accounts node by node.
_SHARE: Final = 0.9
_COUNTS_BY_NODE: Final = (5, 14)
FULL: Final = 0.85
PATIENCE_S: Final = 3.0
NO_ROOM_S: Final = 60.0  # whoever has taken it all is ended in less
_NO_ROOM_LOOK_S: Final = 0.5
_THREADS: Final = 17  # of what stands behind the name in `stat`
_RELEASE: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_WHOLE_MACHINE: Final = [b"0", b"0", b"4294967295"]


def when_room(begin: Callable[[], int | None], stop: Event) -> int | None:
    """What `begin` returns, called again for a while if it can start no process; None if it is told to stop first.

    Raises:
        BlockingIOError: There is no room for any.
    """
    until = time.monotonic() + NO_ROOM_S
    while time.monotonic() < until:
        with suppress(BlockingIOError):
            return begin()
        if stop.wait(_NO_ROOM_LOOK_S):
            return None
    return begin()


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

    def room(self) -> int | None:
        """The limit of processes of its account that a run gets; None where others than this node's would count."""
        if not self._limits or not _is_counted_alone(self._proc):
            return None
        return int(_SHARE * min(limit for _, limit in self._limits))

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
        self._since = now  # it takes a while to look through all processes
        mine = sum(self._count_threads(pid) for pid in find_tagged(self._run))
        if 2 * mine >= full:
            self.reason = f"{USED_UP} ({mine} of {full})"
        return self.reason is not None

    def _count_threads(self, pid: int) -> int:
        with suppress(IndexError, ValueError):  # it ended
            return int(read_piece(self._proc / f"{pid}/stat").rpartition(b")")[2].split()[_THREADS])
        return 0


def _is_counted_alone(proc: Path) -> bool:
    """Whether processes of an account are counted within this node: in its user namespace, by a newer kernel."""
    release = _RELEASE.match(read_piece(proc / "sys/kernel/osrelease").decode(errors="replace"))
    is_new = release is not None and (int(release[1]), int(release[2])) >= _COUNTS_BY_NODE
    return is_new and read_piece(proc / "self/uid_map").split() not in ([], _WHOLE_MACHINE)
