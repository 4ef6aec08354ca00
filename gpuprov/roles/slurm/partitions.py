"""The partitions of a cluster: what a spec may say of them, and what Slurm is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.names import fold
from gpuprov.core.units import HOUR_S, parse_duration_s
from gpuprov.roles.slurm.facts import NAME
from gpuprov.shapes.cluster_spec import DEFAULT_PARTITION
from gpuprov.shapes.limits import LONGEST_S, NODES_MAX
from gpuprov.spec.addressing import node_name, number_of_name
from gpuprov.spec.partitions import partitions_of
from gpuprov.spec.rule import SpecRule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.rule import Found

_KEY: Final = "slurm.partitions"
_MOST: Final = 100
_MINUTE_S: Final = 60


def partitions_with(spec: ClusterSpec, node: str) -> tuple[str, ...]:
    """The names of the partitions that have a node; one that the spec does not name is in the default one."""
    listed = partitions_of(spec)
    return tuple(one.name for one in listed if one.nodes is None or node in one.nodes) or (listed[0].name,)


def describe_partitions(spec: ClusterSpec, nodes: Sequence[str]) -> list[dict[str, Any]]:
    """The values of `slurm.conf` for each partition.

    Args:
        nodes: Names of the nodes that Slurm knows; others that a partition names are not there yet, or any more.
    """
    homes = {name: partitions_with(spec, name) for name in nodes}
    return [
        {
            "name": one.name,
            "nodes": [name for name in nodes if one.name in homes[name]],
            "default": one.default,
            "minutes": -(-(parse_duration_s(one.max_time or "") or 0) // _MINUTE_S),
            "oversubscribe": one.oversubscribe,
        }
        for one in partitions_of(spec)
    ]


def _role(spec: ClusterSpec, _root: Path) -> Found:
    if spec.slurm.partitions and spec.nodes.role != NAME:
        yield _KEY, f"nodes with the role {spec.nodes.role} have no partitions", f"[], or nodes.role: {NAME}"


def _names(spec: ClusterSpec, _root: Path) -> Found:
    listed = spec.slurm.partitions
    if len(listed) > _MOST:
        yield _KEY, f"has {len(listed)} partitions", f"{_MOST} or fewer"
    if listed and spec.slurm.partition != DEFAULT_PARTITION:
        yield "slurm.partition", f"is given beside {_KEY}", f"one of the two; the default is {DEFAULT_PARTITION}"
    first: dict[str, int] = {}
    for index, one in enumerate(listed):
        if first.setdefault(one.name, index) != index:
            yield f"{_KEY}[{index}].name", f"{one.name} is the name of {_KEY}[{first[one.name]}]", "another name"
    defaults = [index for index, one in enumerate(listed) if one.default]
    for index in defaults[1:]:
        yield f"{_KEY}[{index}].default", f"{_KEY}[{defaults[0]}] is the default", "true for one partition at most"


def _times(spec: ClusterSpec, _root: Path) -> Found:
    for index, one in enumerate(spec.slurm.partitions):
        if one.max_time is not None and not _MINUTE_S <= (parse_duration_s(one.max_time) or 0) <= LONGEST_S:
            allowed = f"a whole number with s, m or h, 1m to {LONGEST_S // HOUR_S}h, such as 12h; or null"
            yield f"{_KEY}[{index}].max_time", f"{one.max_time[:80]!r} is not a valid duration", allowed


def _nodes(spec: ClusterSpec, _root: Path) -> Found:
    prefix, count, listed = spec.nodes.prefix, spec.nodes.count, spec.slurm.partitions
    allowed = f"{node_name(prefix, 0)} to {node_name(prefix, max(count, 1) - 1)}, each once; or null for all"
    for index, one in enumerate(listed):
        where, seen = f"{_KEY}[{index}].nodes", set[str]()
        if one.nodes == ():
            yield where, "is empty", allowed
        for place, name in enumerate(one.nodes or ()):
            number = number_of_name(name, prefix=prefix)
            if number is None or number >= count:
                yield f"{where}[{place}]", f"there is no node {name[:60]!r}", allowed
            elif name in seen:
                yield f"{where}[{place}]", f"{name} is named twice", allowed
            seen.add(name)
    if listed and all(one.nodes is not None for one in listed):
        named = {name for one in listed for name in one.nodes or ()}
        every = (node_name(prefix, number) for number in range(min(count, NODES_MAX)))
        left = [name for name in every if name not in named]
        if left:
            yield _KEY, f"{fold(left)} {'are' if left[1:] else 'is'} in no partition", "each node in one"


RULES: Final = (
    SpecRule(reads=(_KEY, "nodes.role"), find=_role),
    SpecRule(reads=(_KEY, "slurm.partition"), find=_names),
    # of an entry without a name nothing is kept, and what is wrong otherwise is as if it were not given
    SpecRule(reads=(f"{_KEY}[].name",), find=_times),
    SpecRule(reads=(_KEY, "nodes.count", "nodes.prefix"), find=_nodes),
)
