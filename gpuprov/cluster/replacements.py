"""Nodes that are being replaced by new ones of the same name: recorded on the cluster's network while that lasts.

A run that is killed between the removal of a node and the making of the new one leaves no node from which the next
could read its order, lease, addresses and exposed ports.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import check_node_name, name_cluster
from gpuprov.drivers.base import (
    LABEL_ADDRESS,
    LABEL_CLUSTER,
    LABEL_FINGERPRINT,
    LABEL_GPUS,
    LABEL_ORDER,
    LABEL_PRIVATE_ADDRESS,
    LABEL_REPLACED,
    LABEL_ROLE,
    LABEL_SHARING,
    NodeState,
)
from gpuprov.shapes.base import parse_json, read, write
from gpuprov.shapes.records import Replacement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.state import ClusterState

_LABELS: Final = (
    LABEL_CLUSTER,
    LABEL_ROLE,
    LABEL_GPUS,
    LABEL_SHARING,
    LABEL_ADDRESS,
    LABEL_PRIVATE_ADDRESS,
    LABEL_ORDER,
    LABEL_FINGERPRINT,
)


def replacement_of(node: NodeState) -> Replacement:
    """What has to be known of a node once it is gone."""
    labels = {label: node.labels[label] for label in _LABELS if node.labels.get(label)}
    return Replacement(name=node.name, id=node.id, labels=labels, host=node.host, exposed=node.exposed)


def read_replacements(state: ClusterState) -> dict[str, Replacement]:
    """The nodes that a run was replacing when it was killed, or is replacing now.

    Raises:
        EngineError: The record cannot be read: a later gpuprov wrote it, or somebody changed it.
    """
    texts = (network.labels.get(LABEL_REPLACED, "") for network in state.own_networks)
    text = next(filter(None, texts), "")
    try:
        found = _read(text) if text else []
    except (ValueError, TypeError, RecursionError, UsageError) as error:
        raise EngineError(
            f"the record of nodes that are being replaced in cluster {state.name} cannot be read",
            evidence=f"label {LABEL_REPLACED}: {excerpt(str(error))}",
            fix=f"let the version that began it finish: {name_cluster('gpuprov cluster up', state.name)}; "
            f"or remove the cluster: gpuprov cluster down {state.name}",
        ) from error
    return {one.name: one for one in found}


def _read(text: str) -> list[Replacement]:
    told = parse_json(text)
    if not isinstance(told, list):
        raise ValueError("it is no list")  # noqa: TRY004 - all that is wrong in a label is a ValueError
    found = [read(Replacement, one) for one in told]
    for one in found:
        check_node_name(one.name)
    return found


def dump_replacements(replacements: Mapping[str, Replacement]) -> str:
    """What `read_replacements` reads."""
    return json.dumps([write(one) for one in replacements.values()], sort_keys=True) if replacements else ""


def ghost_of(one: Replacement) -> NodeState:
    """The old node, where it is gone, as far as a new one is designed by it."""
    return NodeState(name=one.name, status="stopped", labels=one.labels, host=one.host)


def ghosts_of(state: ClusterState) -> tuple[NodeState, ...]:
    """The nodes that were being replaced and are gone, or of which the new ones are unfinished."""
    there = {node.name for node in state.nodes if node.complete} | {node.name for node in state.others}
    return tuple(ghost_of(one) for name, one in sorted(read_replacements(state).items()) if name not in there)
