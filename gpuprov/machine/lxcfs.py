"""lxcfs, by which nodes of LXD and Incus see their own memory and CPUs in /proc, and not the host's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import GpuprovError
from gpuprov.core.execution import run

if TYPE_CHECKING:
    from pathlib import Path

_ANSWER_S: Final = 5.0
_TOLD_BY: Final = ("run/systemd/container", ".dockerenv", "run/.containerenv")
_SNAP = "var/snap/lxd"
# Debian's and Incus's own packages mount it there. Those over files of /proc belong to an engine outside this machine.
_MOUNT = re.compile(r"^(?:\S+ ){4}(/var/lib/(?:incus-)?lxcfs) .* - fuse\.lxcfs ", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class LxcfsMount:
    """Where an lxcfs is mounted; `error` is what the kernel says to those who look there, if it is dead or hangs."""

    path: str
    error: str = ""


def find_lxcfs(root: Path) -> tuple[LxcfsMount, ...] | None:
    """Every lxcfs for nodes of this machine; None if unknown, as with that of LXD's snap."""
    try:
        mountinfo = (root / "proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    paths = parse_lxcfs(mountinfo)
    if not paths and (root / _SNAP).exists():
        return None
    return tuple(LxcfsMount(path=path, error=_refusal(root / path.lstrip("/"))) for path in paths)


def is_container(root: Path) -> bool:
    """Whether the machine is a container itself, as systemd, Docker and Podman tell; there, systemd starts no lxcfs."""
    return any((root / path).exists() for path in _TOLD_BY)


def parse_lxcfs(mountinfo: str) -> tuple[str, ...]:
    """Where /proc/self/mountinfo shows an lxcfs for nodes of this machine."""
    return tuple(dict.fromkeys(_MOUNT.findall(mountinfo)))


def _refusal(path: Path) -> str:
    """Why it cannot be looked at; a process of its own looks, for an lxcfs that hangs would hold up this one."""
    try:
        seen = run(["stat", "--", str(path / "proc/meminfo")], timeout_s=_ANSWER_S, check=False)
    except GpuprovError as error:
        return error.what
    return seen.stderr.strip().rpartition(": ")[2] if seen.exit_code else ""
