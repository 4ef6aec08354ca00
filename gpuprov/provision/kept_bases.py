"""Bases in the cache: which of them a build may start from, and which ones go when a new one comes.

A file was modified when its base was built, and accessed when a build last took it.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.folder_lock import folder_lock

if TYPE_CHECKING:
    from pathlib import Path

FRESH_S: Final = 7 * 24 * 3600.0  # what is older lacks the security updates of a week
_TAKEN_S: Final = 3600.0  # a build that took it may not have imported it yet
_NAME: Final = re.compile(r"(rootfs-[a-z0-9-]+)-[0-9a-f]{12}\.tar")


@dataclass(frozen=True, kw_only=True)
class Base:
    """The root file system that an image starts from.

    Attributes:
        suite: Of the distribution.
        packages: Of the distribution.
        kind: Which nodes it is for, such as `slurm-work-systemd`; a new one takes the place of all others of its suite
            and kind.
    """

    suite: str
    packages: tuple[str, ...]
    kind: str = "systemd"

    def place(self, cache: Path, key: str) -> Path:
        """Where it is kept; its key has 12 hexadecimal digits."""
        return cache / f"rootfs-{self.suite}-{self.kind}-{key}.tar"


def import_name(tar: Path) -> str:
    """What an engine calls it: another name for each time that it was built."""
    return f"gpuprov-base-{tar.stem}-{tar.stat().st_mtime:.0f}"


def take_base(tar: Path) -> bool:
    """Whether it is there and fresh; from now on no other build removes it for an hour."""
    with contextlib.suppress(FileNotFoundError), folder_lock(tar.parent, waits=True):
        if _age_s(tar) < FRESH_S:
            mark_as_taken(tar)
            return True
    return False


def keep_base(made: Path, tar: Path) -> None:
    """Put what was made in its place; what it supersedes goes, and what is too old, unless a build may use it."""
    with folder_lock(tar.parent, waits=True):
        made.replace(tar)
        mark_as_taken(tar)
        for other in tar.parent.glob("rootfs-*.tar"):
            if other != tar and _is_over(other, tar):
                other.unlink()


def find_bases(cache: Path) -> list[Path]:
    """All that are kept."""
    return sorted(tar for tar in cache.glob("rootfs-*.tar") if _group(tar))


def suites_of(cache: Path) -> set[str]:
    """The suites of all that are kept."""
    return {tar.name.split("-")[1] for tar in find_bases(cache)}


def was_taken(kept: Path) -> bool:
    """Whether a build took it a short time ago, and may still need it."""
    return time.time() - kept.stat().st_atime < _TAKEN_S


def mark_as_taken(kept: Path) -> None:
    """From now on it is one that a build may need; whoever calls this holds the lock of the cache."""
    os.utime(kept, ns=(time.time_ns(), kept.stat().st_mtime_ns))


def _is_over(other: Path, new: Path) -> bool:
    outdated = _group(other) == _group(new) or _age_s(other) >= FRESH_S
    return bool(_group(other)) and outdated and not was_taken(other)


def _group(tar: Path) -> str:
    """Suite and kind; empty for what is no base of ours."""
    found = _NAME.fullmatch(tar.name)
    return found[1] if found else ""


def _age_s(tar: Path) -> float:
    return time.time() - tar.stat().st_mtime
