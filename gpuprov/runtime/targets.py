"""Places for mounts in a container's root file system, which belongs to its image: no link of it is followed."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_targets(rootfs: Path, targets: Iterable[str]) -> None:
    """Have a plain file at each path, and plain folders above it; a link in a file's place is replaced.

    Raises:
        HostNotReady: A folder on the way is a link, or something else is there.
    """
    for target in targets:
        *folders, name = target.strip("/").split("/")
        _make(rootfs, target, folders, name)


def make_folders(rootfs: Path, targets: Iterable[str]) -> None:
    """Have a plain folder at each path, and above it.

    Raises:
        HostNotReady: One of them is a link, or something else is there.
    """
    for target in targets:
        _make(rootfs, target, target.strip("/").split("/"))


def _make(rootfs: Path, target: str, folders: Sequence[str], name: str = "") -> None:
    try:
        held = os.open(rootfs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for folder in folders:
                held = _enter(held, folder)
            if name:
                _ensure_file(held, name)
        finally:
            os.close(held)
    except OSError as error:
        raise HostNotReady(
            f"the container has no place for {target}",
            evidence=f"the image has something else than folders on its way: {error.strerror}: {error.filename}",
            fix="use an image in which that folder is no link",
        ) from error


def is_folder(rootfs: Path, path: str) -> bool:
    """Whether an image has a folder there, and none on its way is a link."""
    try:
        held = os.open(rootfs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        for folder in path.strip("/").split("/"):
            inner = os.open(folder, _FOLDER, dir_fd=held)
            os.close(held)
            held = inner
    except OSError:
        return False
    finally:
        os.close(held)
    return True


def _enter(held: int, folder: str) -> int:
    try:
        inner = os.open(folder, _FOLDER, dir_fd=held)
    except FileNotFoundError:
        os.mkdir(folder, 0o755, dir_fd=held)
        inner = os.open(folder, _FOLDER, dir_fd=held)
    os.close(held)
    return inner


def _ensure_file(held: int, name: str) -> None:
    try:
        mode = os.lstat(name, dir_fd=held).st_mode
    except FileNotFoundError:
        mode = 0
    if stat.S_ISREG(mode):
        return
    if stat.S_ISLNK(mode):
        os.unlink(name, dir_fd=held)
    os.close(os.open(name, _FILE, 0o644, dir_fd=held))
