"""make_log_folder.py LOGS HOST OWNER: makes the folder LOGS, of root's, and in it HOST, of the account of the workers.

It runs as root where the folder is, and no link of anybody else's is followed. Prints `changed` if anything was.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_PERSON = 1000
NOBODY = 65534
OPEN_TO_OTHERS = 0o1022  # a folder in which somebody else can make something
LOG = re.compile(r"worker-[0-9]{1,4}\.log")


class Refused(Exception):
    """What is there is not to be used."""


@contextmanager
def opened(name: str, at: int | None, flags: int) -> Iterator[int]:
    """A handle for the block."""
    handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | flags, dir_fd=at)
    try:
        yield handle
    finally:
        os.close(handle)


def own(handle: int, path: Path, owner: int) -> bool:
    """Have what is open belong to an account, and to nobody else's use; whether it did not."""
    status = os.fstat(handle)
    if status.st_uid >= FIRST_PERSON and status.st_uid not in (owner, NOBODY):
        raise Refused(f"{path} belongs to uid {status.st_uid}")
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid == owner and not mode & OPEN_TO_OTHERS:
        return False
    os.fchown(handle, owner, -1)
    os.fchmod(handle, mode & ~OPEN_TO_OTHERS)
    return True


def make_folder(name: str, at: int) -> bool:
    """Whether a folder was not there."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=at)
        return True
    return False


def main(logs: Path, host: str, owner: int) -> bool:
    """Make both; whether anything was not as it is to be."""
    changed = []
    at = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    for name in logs.parts[1:]:
        changed.append(make_folder(name, at))
        is_root_s_link = (found := os.lstat(name, dir_fd=at)) and stat.S_ISLNK(found.st_mode) and found.st_uid == 0
        with opened(name, at, os.O_DIRECTORY | (0 if is_root_s_link else os.O_NOFOLLOW)) as handle:
            os.dup2(handle, at)
    changed.append(own(at, logs, 0) or make_folder(host, at))
    with opened(host, at, os.O_DIRECTORY | os.O_NOFOLLOW) as folder:
        changed.append(own(folder, logs / host, owner))
        for name in filter(LOG.fullmatch, os.listdir(folder)):  # noqa: PTH208  (an earlier role's are root's)
            with opened(name, folder, os.O_NOFOLLOW) as log:
                status = os.fstat(log)
                if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                    raise Refused(f"{logs / host / name} is not a regular file with one name")
                changed.append(own(log, logs / host / name, owner))
    return any(changed)


if __name__ == "__main__":
    try:
        account = sys.argv[3]
        if main(Path(sys.argv[1]), sys.argv[2], int(account) if account.isdigit() else pwd.getpwnam(account).pw_uid):
            sys.stdout.write("changed\n")
    except (KeyError, OSError, Refused) as error:
        sys.exit(str(error))
