"""What an engine has, as a bundle tells it: its facts, its objects as it shows them, and the spec of a cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from gpuprov.documents.envelope import document
from gpuprov.spec.serialize import plain_spec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import EngineFacts, ImageState, NodeState
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.spec.models import ClusterSpec

_OVERLAID: Final = "overlaid"  # follows from the cluster's spec; a document has what it had


def facts_document(facts: EngineFacts, *, host: str) -> dict[str, Any]:
    """What an engine says of itself and its machine."""
    return document("engine-facts", host=host, facts=asdict(facts))


def found_nodes_document(nodes: Iterable[NodeState], *, engine: str, host: str) -> dict[str, Any]:
    """Every instance of an engine; of a foreign one nothing that is its owner's business."""
    return document("engine-nodes", host=host, engine=engine, nodes=[_shown(node) for node in nodes])


def found_networks_document(networks: Iterable[NetworkState], *, engine: str, host: str) -> dict[str, Any]:
    """Every network that an engine shows."""
    shown = [{key: told for key, told in asdict(network).items() if key != _OVERLAID} for network in networks]
    return document("engine-networks", host=host, engine=engine, networks=shown)


def found_images_document(images: Iterable[ImageState], *, engine: str, host: str) -> dict[str, Any]:
    """The images of an engine that gpuprov made."""
    return document("engine-images", host=host, engine=engine, images=[asdict(image) for image in images])


def spec_document(cluster: str, spec: ClusterSpec | None, *, host: str) -> dict[str, Any]:
    """What was last asked for; null for a cluster that was never brought up."""
    return document("cluster-spec", host=host, cluster=cluster, spec=plain_spec(spec) if spec else None)


def _shown(node: NodeState) -> dict[str, object]:
    if node.ours:
        return asdict(node)
    shown = {"name": node.name, "status": node.status, "addresses": dict(node.addresses)}
    return {**shown, **({"copy_of": node.copy_of.name} if node.copy_of else {})}
