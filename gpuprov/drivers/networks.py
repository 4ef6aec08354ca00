"""Networks, as drivers are told and tell them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.shapes.engine import FoundNetwork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.node import Settings


@dataclass(frozen=True, kw_only=True)
class NetworkRequest:
    """A bridge. With an `address` (`10.0.3.1/24`) the host is on it and it has NAT; without, nodes only.

    Attributes:
        subnet: Where the nodes' addresses are (`10.0.5.0/24`), for engines that must know it of a network without
            address.
        beside: A bridge for engines that need something to put a network without address upon: that with an address
            which the same nodes are on, or one that connects hosts.
    """

    name: str
    labels: Mapping[str, str]
    address: str | None = None
    subnet: str | None = None
    beside: str | None = None


class NetworkState(FoundNetwork, frozen=True, kw_only=True):
    """A network as the engine or the host shows it.

    Attributes:
        overlaid: The bridge of an overlay, where it is on one that the engine did not make.
    """

    overlaid: str = ""

    @property
    def ours(self) -> bool:
        """Whether gpuprov made it."""
        return LABEL_CLUSTER in self.labels

    @property
    def bridge(self) -> str:
        """The host's bridge that its rules of the firewall are about, if it has one of its own."""
        return self.overlaid or self.name


class TellsNoNetworkSettings:
    """The part of a Driver that does not tell what its engine was told of networks: nothing of it counts as changed."""

    def network_settings(self, request: NetworkRequest) -> Settings:  # noqa: ARG002 - the protocol's signature
        """Nothing to compare with."""
        return {}

    def set_network_settings(self, request: NetworkRequest) -> None:
        """Nothing to set."""
