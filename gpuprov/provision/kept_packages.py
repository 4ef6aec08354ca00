"""Packages that were fetched for a base whose build then failed: the next build takes them from here."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from gpuprov.core.fingerprint import fingerprint, short
from gpuprov.core.folder_lock import folder_lock
from gpuprov.core.process import boot_id

if TYPE_CHECKING:
    from pathlib import Path

_PREFIX = "packages-"


def kept_packages(cache: Path) -> Path | None:
    """Where they are to be; None for a user other than root, as who mmdebstrap could not write there.

    apt knows a package that is there by its size alone, and after a power cut the size can be all that is left of it:
    what was fetched before this machine was booted is removed.
    """
    if os.geteuid() != 0:
        return None
    folder = cache / f"{_PREFIX}{short(fingerprint(boot_id()))}"
    for other in cache.glob(f"{_PREFIX}*"):
        if other != folder or not any(other.rglob("*.deb")):
            _remove(other)
    return folder


def forget_packages(cache: Path) -> None:
    """Remove them: they have become a base, or they cannot be installed."""
    for folder in cache.glob(f"{_PREFIX}*"):
        _remove(folder)


def _remove(folder: Path) -> None:
    """Unless another build fetches packages there: hooks/setup.sh holds this lock meanwhile."""
    with contextlib.suppress(OSError), folder_lock(folder, waits=False):
        shutil.rmtree(folder, ignore_errors=True)
