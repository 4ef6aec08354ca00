"""An Ansible role of a user's own, for a node image: which folders can be one, and what of them counts."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final

from gpuprov.core.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROLES_MAX: Final = 20
FORM: Final = "a folder with tasks/main.yml, of at most 2000 files and 64 MiB"
_FILES_MAX: Final = 2000
_BYTES_MAX: Final = 64 * MIB
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}(\.[A-Za-z0-9_-]{1,40})?", re.ASCII)
_ENTRY: Final = ("tasks/main.yml", "tasks/main.yaml")
_NOT_COUNTED: Final = frozenset({".git", "__pycache__"})


def find_role_problem(folder: Path) -> str:
    """What keeps a folder from being applied as a role, in words that follow its path; empty if nothing does."""
    from gpuprov.assets import get_asset  # no role ships with what is sent to a host that is asked for its GPUs

    name = folder.name
    if not _NAME.fullmatch(name):
        return "has a name that Ansible does not take: letters, digits, _ and -, with one dot at most"
    if (get_asset("roles") / name).exists():
        return f"has the name of gpuprov's own role {name}"
    try:
        if folder.is_dir() and any((folder / entry).is_file() for entry in _ENTRY):
            list_role_files(folder)
            return ""
        return f"has no {_ENTRY[0]}" if folder.exists() else "does not exist on the host"
    except OSError as error:
        return f"cannot be read: {error.strerror}: {str(error.filename)!r}"
    except ValueError as error:
        return str(error)


def list_role_files(folder: Path) -> list[Path]:
    """The files and links of a role, in a fixed order, without what git and Python keep there.

    Raises:
        ValueError: The folder cannot be a role, in words that follow its path.
        OSError: It cannot be read.
    """
    found: list[Path] = []
    size_bytes = 0
    whole = folder.resolve()
    for path in _walk(folder):
        state = path.lstat()
        place = str(path.relative_to(folder))
        if stat.S_ISLNK(state.st_mode):
            _refuse_way_out(path, place, whole)
        elif not stat.S_ISREG(state.st_mode):
            raise ValueError(f"contains {place!r}, which is neither a file nor a folder")
        elif not os.access(path, os.R_OK):
            raise ValueError(f"contains {place!r}, which cannot be read")
        size_bytes += state.st_size
        found.append(path)
        if len(found) > _FILES_MAX:
            raise ValueError(f"contains more than {_FILES_MAX} files")
        if size_bytes > _BYTES_MAX:
            raise ValueError(f"contains more than {_BYTES_MAX // MIB} MiB")
    return sorted(found)


def _walk(folder: Path) -> Iterator[Path]:
    """All that is no folder, one at a time: the caller stops where it is too much."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in _NOT_COUNTED:
                continue
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(path)
            else:
                yield path


def _refuse_way_out(link: Path, place: str, whole: Path) -> None:
    target = str(link.readlink())
    try:
        inside = not target.startswith("/") and link.resolve(strict=True).is_relative_to(whole)
    except (OSError, RuntimeError):  # it leads nowhere, or to itself
        inside = False
    if not inside:
        raise ValueError(f"contains the symbolic link {place!r}, which leads out of it")
