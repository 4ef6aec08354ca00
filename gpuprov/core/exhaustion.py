"""Turn the system's errors about exhausted resources, and about what a user may not do, into gpuprov errors."""

from __future__ import annotations

import errno
import re
from pathlib import Path

from gpuprov.core.errors import EngineError, HostNotReady

NO_ROOM = re.compile(
    r"no space left on device|disk quota exceeded|errno 28\b|don't have enough free space", re.IGNORECASE
)
NO_PROCESS = re.compile(
    r"resource temporarily unavailable|can't start new thread|cannot fork"
    r"|OCI runtime exec failed: .*read init-p: connection reset by peer",  # Docker's, whose own process cannot fork
    re.IGNORECASE,
)
_CAUSES = {
    errno.ENOSPC: "a disk of this machine is full",
    errno.EDQUOT: "this user's disk quota is used up",
    errno.EROFS: "a file system that gpuprov needs to write to is read-only",
    errno.EMFILE: "this process has too many open files",
    errno.ENFILE: "this machine has too many open files",
    errno.ENOMEM: "this machine is out of memory",
}
_FIXES = {errno.EMFILE: "ulimit -n 4096", errno.ENFILE: "sudo sysctl fs.file-max", errno.ENOMEM: "free -h"}
_NEARLY = 0.95  # of what a node may have: processes end and begin all the time
_CLOSED = (errno.EACCES, errno.EPERM)


def explain_exhaustion(error: OSError, *, temporary: str) -> HostNotReady | None:
    """The error in three parts, if it says that something ran out; None for any other.

    Args:
        error: As the system raised it; one of a write names no file, and then it was a temporary one most likely.
        temporary: The folder of temporary files.
    """
    cause = _CAUSES.get(error.errno or 0)
    if error.errno in _CLOSED and error.filename:
        fix = f"ls -ld {error.filename} {Path(str(error.filename)).parent}"
        return HostNotReady("this user has no access to a file or folder", evidence=str(error), fix=fix)
    if cause is None:
        return None
    place = Path(str(error.filename)).parent if error.filename else Path(temporary)
    if error.errno == errno.EROFS:
        return HostNotReady(cause, evidence=str(error), fix=f"findmnt -T {place}  # which file system that is")
    return HostNotReady(
        cause,
        evidence=str(error),
        fix=_FIXES.get(error.errno or 0, f"df -h {place}  # free some space there, then run the same command again"),
    )


def room_fix(evidence: str, *places: Path | str) -> str | None:
    """What to type when a program's own words say that a disk is full; None when they do not."""
    if not NO_ROOM.search(evidence):
        return None
    return f"df -h {' '.join(str(place) for place in places)}  # free some space there, then run the same command again"


def is_used_up(processes: int, limit: int) -> bool:
    """Whether nothing more can be started in a node that has so many of its processes."""
    return processes >= _NEARLY * limit


def used_up_processes(node: str, evidence: str, *, limit: int | None = None) -> EngineError:
    """The error for a node in which nothing can be started any more."""
    return EngineError(
        f"{node} has used up its {f'{limit} ' if limit else ''}processes",
        evidence=evidence,
        fix=f"gpuprov stop {node} --force  # ends everything there, jobs included; then: gpuprov start {node}",
    )
