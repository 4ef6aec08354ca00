"""What a killed engine or run may leave besides what the engine lists: folders, subvolumes, processes, mounts."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

LXD = ("/var/lib/lxd", "/var/snap/lxd/common/lxd", "/var/lib/incus")
# Not its logs: LXD keeps those of removed instances for two days.
FOLDERS = (
    "containers",
    "devices",
    "networks",
    "security/*",
    "security/*/*",
    "shmounts",
    "snapshots",
    "storage-pools/*/*",
)
# On a kernel without AppArmor Incus 6.0 writes profiles all the same, and never removes one.
UNUSED_PROFILES = Path("/var/lib/incus/security/apparmor")
APPARMOR = Path("/sys/kernel/security/apparmor")
PROGRAMS = ("dnsmasq", "[lxc monitor]")  # LXD starts them, and they outlive it


def find_folders(mark: str) -> list[Path]:
    """Folders, subvolumes, links and files of LXD's and Incus' with the mark in their names."""
    patterns = [f"{folder}/*{mark}*" for folder in FOLDERS]
    found = (path for root in LXD for pattern in patterns for path in Path(root).glob(pattern))
    return sorted(path for path in found if APPARMOR.exists() or not path.is_relative_to(UNUSED_PROFILES))


def find_processes(mark: str) -> dict[int, str]:
    """Name servers of bridges, and keepers of containers, with the mark in their commands."""
    found: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if mark in command and command.startswith(PROGRAMS):
                found[int(path.parent.name)] = next(word for word in command.split() if mark in word)
    return found


def find_mounts(mark: str) -> dict[str, list[str]]:
    """What is mounted with the mark in its line, by the mount namespaces that processes are in."""
    found: dict[str, list[str]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            lines = (process / "mounts").read_text(errors="replace").splitlines()
            marked = [line for line in lines if mark in line]
            if marked:
                found[str((process / "ns/mnt").readlink())] = marked
    return found


def sweep_remains(mark: str, *, kept: Collection[str]) -> None:
    """Remove by force what nothing else can; `kept` are the names of instances and networks that are still there."""
    for pid, word in find_processes(mark).items():
        if not any(name in word for name in kept):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for path in find_folders(mark):
        if any(name in path.name for name in kept):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)  # a subvolume too: empty, it goes as a folder does
        else:
            path.unlink(missing_ok=True)
