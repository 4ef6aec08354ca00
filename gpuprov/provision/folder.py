"""The private folder of a play: it goes with the play unless its log is kept; after a kill, with the next play."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "gpuprov-play-"
_RUNNING = "running"  # in the folder of a play that has not ended; locked for as long as its process lives


class PlayFolder:
    """A private folder; `keep` leaves it where it is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept = False

    def keep(self) -> None:
        """Leave it, for its log."""
        self.kept = True
        (self.path / _RUNNING).unlink(missing_ok=True)


@contextmanager
def play_folder() -> Iterator[PlayFolder]:
    """A folder for the block, removed at its end however that comes, such as on a full disk."""
    for left in abandoned_folders():
        shutil.rmtree(left, ignore_errors=True)
    folder = PlayFolder(Path(tempfile.mkdtemp(prefix=_PREFIX)))
    try:
        with _new_lock(folder.path):
            yield folder
    finally:
        if not folder.kept:
            shutil.rmtree(folder.path, ignore_errors=True)


@contextmanager
def _new_lock(folder: Path) -> Iterator[None]:
    unlocked = folder / f"{_RUNNING}.new"  # until it is locked, another run would take it for a dead one's
    with unlocked.open("wb") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        unlocked.rename(folder / _RUNNING)
        yield


def abandoned_folders() -> list[Path]:
    """This user's folders whose runs were killed."""
    return [folder for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*") if _is_abandoned(folder)]


def _is_abandoned(folder: Path) -> bool:
    with contextlib.suppress(OSError):  # one without the mark is kept for its log, or of another user
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
            with (folder / _RUNNING).open("rb") as mark:
                fcntl.flock(mark, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return True
    return False
