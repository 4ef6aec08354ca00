"""A folder of this host in an archive: what nodes have left in it, by tar, which follows no link of theirs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from gpuprov.core.execution import run
from gpuprov.core.limits import Limits

if TYPE_CHECKING:
    from pathlib import Path

_LIMITS: Final = Limits(silence_s=120.0)


def pack_folder(folder: str, archive: Path, *, name: str, part: str = ".", most_bytes: int | None = None) -> None:
    """Add all that is in a folder to an archive of tar, below a name there.

    Args:
        part: What is taken of it, such as `./saved`.
        most_bytes: By how much the archive may grow; None for no limit.

    Raises:
        CommandFailed: Something cannot be read, it is too large, or the disk is full.
    """
    renamed = f"--transform=flags=rSh;s,^{part.replace('.', chr(92) + '.')},{name},"
    what = ["--append", "--one-file-system", "--numeric-owner", renamed, "--directory", folder, part]
    # What is added is written at the end, and a node may write on while it is read
    limit = [] if most_bytes is None else ["prlimit", f"--fsize={archive.stat().st_size + most_bytes}"]
    run([*limit, "tar", f"--file={archive}", *what], timeout_s=_LIMITS)


def unpack_folder(archive: Path, folder: str, *, name: str, moved: int) -> None:
    """Put what is below a name in an archive into a folder, with owners, modes and times.

    Args:
        moved: How much higher the numbers of the nodes' users are on this host than where it was packed.

    Raises:
        CommandFailed: The archive is damaged, or the disk is full.
    """
    what = ["--extract", "--same-owner", "--numeric-owner", "--preserve-permissions", "--strip-components=1"]
    run(["tar", f"--file={archive}", *what, "--directory", folder, name], timeout_s=_LIMITS)
    if moved:
        for _, folders, files, here in os.fwalk(folder, follow_symlinks=False):
            for entry in (*folders, *files):
                seen = os.stat(entry, dir_fd=here, follow_symlinks=False)
                user, group = max(0, seen.st_uid + moved), max(0, seen.st_gid + moved)
                os.chown(entry, user, group, dir_fd=here, follow_symlinks=False)
