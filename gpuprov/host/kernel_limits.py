"""Limits of the kernel that all nodes share: root in every unprivileged node is the same user of the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuprov.drivers.base import Driver


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

    def read(self, root: Path) -> int | None:
        """The present value; None where the kernel shows none."""
        try:
            text = (root / "proc/sys" / self.key.replace(".", "/")).read_text(encoding="ascii", errors="replace")
        except OSError:
            return None
        return int(text) if text.strip().isdigit() else None


INOTIFY = KernelLimit(key="fs.inotify.max_user_instances", least=1024, per_node=6)
KEYS = KernelLimit(key="kernel.keys.maxkeys", least=1000, per_node=10)
NEIGHBOURS = KernelLimit(key="net.ipv4.neigh.default.gc_thresh3", least=4096)
LIMITS: Mapping[str, KernelLimit] = {"inotify": INOTIFY, "keys": KEYS, "neighbours": NEIGHBOURS}


def refuse_few(driver: Driver, limits: Mapping[str, int | None], nodes: int) -> None:
    """Refuse nodes that the kernel's limits cannot carry: they would be made, and never get ready.

    Args:
        driver: Tells which nodes run already.
        limits: The present values, by check.
        nodes: How many are to be made.

    Raises:
        HostNotReady: A limit is too low for these nodes and those that run.
    """
    if "systemd" not in driver.capabilities:  # what takes most of both
        return
    running: int | None = None
    for check, limit in LIMITS.items():
        present = limits.get(check)
        if present is None or not limit.per_node or present >= limit.least:
            continue
        if running is None:
            running = sum(node.status == "running" and not node.privileged for node in driver.list_nodes())
        needed = (running + nodes) * limit.per_node
        if present < needed:
            raise HostNotReady(
                f"the kernel limit {limit.key} is too low for {nodes} more nodes",
                evidence=f"it is {present} for all nodes; {running} are running, {running + nodes} need up to {needed}",
                fix="sudo gpuprov host prepare  # raises it",
            )
