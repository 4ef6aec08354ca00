"""How full the disk of a folder is, and who uses it: read aside, within limits, and without following links."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from gpuprov.core.disk import COUNT_S, Disk, Usage
from gpuprov.core.errors import GpuprovError
from gpuprov.machine.call_aside import call_aside

if TYPE_CHECKING:
    from pathlib import Path

_LOOK_S: Final = 2.0
_GRACE_S: Final = 3.0  # for one folder of very many entries, or a slow disk
_JOBS: Final = "jobs"  # the folder below which each job has one
_TOLD: Final = 3
_SECTOR: Final = 512


def look_at_disk(folder: Path) -> Disk | None:
    """The disk of a folder; None where it is not there, may not be seen, or does not answer."""
    try:
        said = call_aside(partial(_look, str(folder)), limit_s=_LOOK_S)
    except GpuprovError:
        return None
    return Disk(**said) if said else None


def count_usage(folder: Path) -> Usage:
    """Who uses the most of a folder that nodes share: each job by itself, and what else is in it."""
    try:
        sizes, whole = call_aside(partial(_count, str(folder)), limit_s=COUNT_S + _GRACE_S)
    except GpuprovError:
        return Usage(whole=False)
    found = [(name, size, files) for name, (size, files) in sizes.items()]
    by_size = sorted(found, key=lambda entry: -entry[1])[:_TOLD]
    by_files = sorted(found, key=lambda entry: -entry[2])[:_TOLD]
    return Usage(largest=tuple(dict.fromkeys((*by_size, *by_files))), whole=whole)


def _look(folder: str) -> dict[str, int]:
    try:
        seen = os.statvfs(folder)
    except OSError:
        return {}
    return {
        "total_bytes": (seen.f_blocks - seen.f_bfree + seen.f_bavail) * seen.f_frsize,  # without what only root may use
        "free_bytes": seen.f_bavail * seen.f_frsize,
        "total_files": seen.f_files,
        "free_files": seen.f_favail,
    }


def _count(folder: str) -> tuple[dict[str, tuple[int, int]], bool]:
    end_s = time.monotonic() + COUNT_S
    sizes: dict[str, tuple[int, int]] = {}
    try:
        for above, folders, files, handle in os.fwalk(folder):
            for name in (*folders, *files):
                if time.monotonic() > end_s:
                    return sizes, False
                parts = PurePosixPath(above, name).relative_to(folder).parts
                owner = "/".join(parts[: 2 if parts[0] == _JOBS else 1])
                with suppress(OSError):
                    status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                    size, entries = sizes.get(owner, (0, 0))
                    sizes[owner] = size + status.st_blocks * _SECTOR, entries + 1
    except (RecursionError, OSError):  # a tree that is deeper than anybody needs
        return sizes, False
    return sizes, True
