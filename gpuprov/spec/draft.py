"""A spec with values that are not set: bridges, subnets, the prefix of node names and the shared folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import NetworkSpec

if TYPE_CHECKING:
    from gpuprov.shapes.cluster_spec import ClusterSpec

PREFIX: Final = "nodes.prefix"
NETWORK_VALUES: Final = frozenset(
    f"network.{key}"
    for key in NetworkSpec.__struct_fields__
    if key not in {"overlay", "host_ports"}  # who does not say them leaves nothing open
)
SHARE: Final = "share"
CHOOSABLE: Final = NETWORK_VALUES | {PREFIX, SHARE}


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A spec, and which of its values were left open.

    Attributes:
        spec: With a preference where a value is open.
        left: Paths of the open values, some of CHOOSABLE.
        engine_open: Whether no engine is set.
    """

    spec: ClusterSpec
    left: frozenset[str] = frozenset()
    engine_open: bool = False

    def filled(self, source: ClusterSpec) -> ClusterSpec:
        """The spec with the values of another one where they were left open."""
        keys = [path.partition(".")[2] for path in self.left & NETWORK_VALUES]
        network = changed(self.spec.network, **{key: getattr(source.network, key) for key in keys})
        prefix = source.nodes.prefix if PREFIX in self.left else self.spec.nodes.prefix
        share = source.share if SHARE in self.left else self.spec.share
        return changed(self.spec, network=network, nodes=changed(self.spec.nodes, prefix=prefix), share=share)
