"""One writer per host: a lock that names its holder, and that the kernel releases when the holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import stat
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady
from gpuprov.core.redact import hide_command
from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.core.reporter import Reporter

LOCK_FOLDER = Path("/run/lock")
LOCK_NAME = "gpuprov.lock"
TIMEOUT_S = 900.0
EVERYONE = 0o666  # members of the engine's group who are not root take the same lock


@contextmanager
def host_lock(reporter: Reporter, *, folder: Path | None = None, timeout_s: float = TIMEOUT_S) -> Iterator[bool]:
    """Hold the host lock for the block, and tell whether it had to be waited for; readers do not need it.

    Args:
        reporter: Is told which run this one waits for.
        folder: Where the lock file lives; /run/lock, or the temporary folder where that is missing.
        timeout_s: Seconds to wait for the present holder.

    Raises:
        TimedOut: Another process held it all that time.
        HostNotReady: The lock file cannot be made or opened.
    """
    path = (folder or default_folder()) / LOCK_NAME
    descriptor = _open(path)
    try:
        waited = not _take(descriptor)
        if waited:
            reporter.note(f"waiting for {_holder(path)}")
            wait = Wait(
                what=f"the host lock, held by {_holder(path)}",
                timeout_s=timeout_s,
                fix="wait for the other run to finish, or stop it, then run this command again",
            )
            wait.until(lambda: _take(descriptor), bool)
        _sign(descriptor)
        try:
            yield waited
        finally:
            os.ftruncate(descriptor, 0)  # everyone may read it, and who holds it no more is nobody's business
    finally:
        os.close(descriptor)  # which also releases the lock


def default_folder() -> Path:
    """Where locks live: /run/lock, or the temporary folder where that is missing."""
    return LOCK_FOLDER if LOCK_FOLDER.is_dir() and os.access(LOCK_FOLDER, os.W_OK) else Path(tempfile.gettempdir())


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # Without O_CREAT first: fs.protected_regular refuses it for another user's file in a sticky folder, root too.
        with contextlib.suppress(FileNotFoundError):
            return _regular(os.open(path, flags), path)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, EVERYONE)
            os.fchmod(descriptor, EVERYONE)  # whatever the umask
            return descriptor
        return _regular(os.open(path, flags), path)
    except OSError as error:
        raise HostNotReady(
            "cannot open the host lock", evidence=str(error), fix=f"ls -l {path}  # remove it if gpuprov is not running"
        ) from error


def _regular(descriptor: int, path: Path) -> int:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(descriptor: int) -> None:
    """Write into the file who holds it."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{describe_process()}\n".encode(), 0)


def describe_process() -> str:
    """This process, for every user of the host to read: who, and the command without secrets."""
    command = hide_command([Path(sys.argv[0]).name, *sys.argv[1:]])
    return f"process {os.getpid()} of {_user()}: {command}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or "another gpuprov run"
    except OSError:
        return "another gpuprov run"
