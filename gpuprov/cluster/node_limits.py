"""What a new node may use of its host where the spec does not say: so much that the host has room. Pure functions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.catalogue import find_fix
from gpuprov.core.names import fold
from gpuprov.core.units import GIB, MIB
from gpuprov.drivers.base import LABEL_LIMITS
from gpuprov.drivers.label_text import read_object
from gpuprov.machine.kernel_limits import compare_processes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.drivers.base import NodeState
    from gpuprov.shapes.engine import EngineFacts

_KEPT_SHARE: Final = 0.05  # of the host's memory; what is left is no less than what Slurm gives to jobs
_MOST_KEPT_BYTES: Final = 8 * GIB
_SHARERS: Final = 4  # nodes that share half of the host's processes, or as many as the cluster has
_LEAST_PROCESSES: Final = 1024
_MOST_PROCESSES: Final = 32768
_UNKNOWN_PROCESSES: Final = 32768  # of a kernel that does not tell
_COUNTED: Final = ("pids", "threads")


@dataclass(frozen=True, kw_only=True)
class GivenLimits:
    """Limits that a node was given when it was made, which hold where the spec sets none.

    A node of a version that gave none has none: nothing is restarted for them. A node that has them gives way to its
    host too, in its share of the CPUs and where memory runs out.
    """

    processes: int | None = None
    memory_mib: int | None = None

    def dump(self) -> str:
        """As the label's text; empty where there are none."""
        return "" if self == GivenLimits() else json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def choose_limits(facts: EngineFacts, kernel: Mapping[str, int | None], *, nodes: int) -> GivenLimits:
    """For each new node of a host.

    Args:
        facts: Tells the host's memory.
        kernel: The kernel's limits, by check.
        nodes: How many nodes the cluster has on this host.
    """
    most = min((kernel.get(check) or _UNKNOWN_PROCESSES for check in _COUNTED), default=_UNKNOWN_PROCESSES)
    share = most // 2 // max(_SHARERS, nodes)
    kept = min(int(facts.memory_bytes * _KEPT_SHARE), _MOST_KEPT_BYTES)
    return GivenLimits(
        processes=min(max(share, _LEAST_PROCESSES), _MOST_PROCESSES),
        memory_mib=max(1, (facts.memory_bytes - kept) // MIB),
    )


def given_limits(node: NodeState) -> GivenLimits:
    """Those in a node's label; none where it cannot be read."""
    said = read_object(node.labels.get(LABEL_LIMITS))
    numbers = {key: said.get(key) for key in ("processes", "memory_mib")}
    if not all(type(number) is int and number > 0 for number in numbers.values()):
        return GivenLimits()
    return GivenLimits(**numbers)


def crowding_line(promised: Sequence[int | None], kernel: Mapping[str, int | None]) -> str:
    """That the nodes of all clusters may take more processes than their host has; empty where they may not.

    Args:
        promised: To each node of the host.
        kernel: The kernel's limits, by check.
    """
    words, too_many = compare_processes(promised, kernel)
    return f"{words}: {find_fix('many', 'node-limits')}" if too_many else ""


def unlimited_lines(designs: Iterable[NodeDesign]) -> tuple[str, ...]:
    """A line for the nodes that can use up their host, and how they get limits; none where each has them."""
    names = [design.name for design in designs if not design.limits.processes or not design.limits.memory_bytes]
    if not names:
        return ()
    lack = "created by an earlier version without limits of processes and memory"
    return (f"{fold(names)}: {lack}; nodes.processes and nodes.memory_gib in the spec set them",)
