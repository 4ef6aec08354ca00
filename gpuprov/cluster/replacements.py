"""Nodes that are being replaced by new ones of the same name: recorded on the cluster's network while that lasts.

A run that is killed between the removal of a node and the making of the new one leaves no node from which the next
could read its order, lease, addresses and exposed ports.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal

from gpuprov.core.answer_kinds import is_string, items_of, number_in, pick
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
from gpuprov.drivers.networks import Exposure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.answer_kinds import Accepts

# `stopped`: the service that has it may have been stopped; `kept`: what it knows is in a file of this host
QueueFate = Literal["none", "stopped", "kept"]

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
_PORT: Final = number_in(1, 65535)
_EXPOSURE: Final[Mapping[str, Accepts]] = {"host_port": _PORT, "node_port": _PORT, "listen": is_string}
_KINDS: Final[Mapping[str, Accepts]] = {
    "name": is_string,
    "id": is_string,
    "labels": lambda value: isinstance(value, dict) and all(map(is_string, value.values())),
    "host": is_string,
    "exposed": items_of(lambda value: isinstance(value, dict)),
    "queue": lambda value: value in ("none", "stopped", "kept"),
    "keeper": is_string,
}


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """A node that is being replaced.

    Attributes:
        id: The engine's own name for the old one.
        labels: Those of its labels by which the new one is designed.
        host: Name of the host that it is on.
        exposed: Its exposed ports.
        queue: What became of the queue that it has.
        keeper: The user whose files have the queue.
    """

    name: str
    id: str
    labels: Mapping[str, str]
    host: str = ""
    exposed: tuple[Exposure, ...] = ()
    queue: QueueFate = "none"
    keeper: str = ""

    @property
    def ghost(self) -> NodeState:
        """The old node, where it is gone, as far as a new one is designed by it."""
        return NodeState(name=self.name, status="stopped", labels=self.labels, host=self.host)


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
        found = [_read(one) for one in json.loads(text)] if text else []
    except (ValueError, TypeError, RecursionError, UsageError) as error:
        raise EngineError(
            f"the record of nodes that are being replaced in cluster {state.name} cannot be read",
            evidence=f"label {LABEL_REPLACED}: {excerpt(str(error))}",
            fix=f"let the version that began it finish: {name_cluster('gpuprov cluster up', state.name)}; "
            f"or remove the cluster: gpuprov cluster down {state.name}",
        ) from error
    return {one.name: one for one in found}


def _read(told: object) -> Replacement:
    name, number, labels, host, exposed, queue, keeper = pick(told, _KINDS)
    ports = (pick(one, _EXPOSURE) for one in exposed)
    return Replacement(
        name=check_node_name(name),
        id=number,
        labels=labels,
        host=host,
        exposed=tuple(Exposure(host_port=port, node_port=inner, listen=listen) for port, inner, listen in ports),
        queue=queue,
        keeper=keeper,
    )


def dump_replacements(replacements: Mapping[str, Replacement]) -> str:
    """What `read_replacements` reads."""
    return json.dumps([asdict(one) for one in replacements.values()], sort_keys=True) if replacements else ""


def ghosts_of(state: ClusterState) -> tuple[NodeState, ...]:
    """The nodes that were being replaced and are gone, or of which the new ones are unfinished."""
    there = {node.name for node in state.nodes if node.complete} | {node.name for node in state.others}
    return tuple(one.ghost for name, one in sorted(read_replacements(state).items()) if name not in there)
