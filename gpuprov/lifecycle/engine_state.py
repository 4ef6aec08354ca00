"""The spec of a cluster, as a bundle tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.shapes.base import write
from gpuprov.shapes.cluster_spec import SpecOfCluster
from gpuprov.spec.serialize import plain_spec

if TYPE_CHECKING:
    from gpuprov.shapes.cluster_spec import ClusterSpec


def spec_document(cluster: str, spec: ClusterSpec | None, *, host: str) -> dict[str, Any]:
    """What was last asked for; null for a cluster that was never brought up."""
    told = write(SpecOfCluster(host=host, cluster=cluster, spec=spec))
    return told if spec is None else {**told, "spec": plain_spec(spec)}
