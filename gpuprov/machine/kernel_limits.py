"""Limits of the kernel that all nodes share: root in every unprivileged node is the same user of the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, kw_only=True)
class KernelLimit:
    """One limit.

    Attributes:
        key: Its name for sysctl.
        least: What is enough for any number of nodes that people make.
        per_node: What a node with systemd and Slurm takes of it (measured, rounded up); 0: depends on traffic.
    """

    key: str
    least: int
    per_node: int = 0


INOTIFY = KernelLimit(key="fs.inotify.max_user_instances", least=1024, per_node=6)
KEYS = KernelLimit(key="kernel.keys.maxkeys", least=1000, per_node=10)
NEIGHBOURS = KernelLimit(key="net.ipv4.neigh.default.gc_thresh3", least=4096)
PIDS = KernelLimit(key="kernel.pid_max", least=32768)  # what a node may have of them, cluster/node_limits.py says
THREADS = KernelLimit(key="kernel.threads-max", least=16384)
LIMITS: Mapping[str, KernelLimit] = {
    "inotify": INOTIFY,
    "keys": KEYS,
    "neighbours": NEIGHBOURS,
    "pids": PIDS,
    "threads": THREADS,
}


def compare_processes(promised: Sequence[int | None], limits: Mapping[str, int | None]) -> tuple[str, bool]:
    """What nodes together may take of the host's processes, in words, and whether that is more than it has.

    Args:
        promised: To each node; None to one without limit.
        limits: The kernel's, by check.
    """
    most = min((limit for check in ("pids", "threads") if (limit := limits.get(check))), default=0)
    together = sum(count or 0 for count in promised)
    return f"{together} processes for {len(promised)} nodes together, of {most} of the host", together > most > 0
