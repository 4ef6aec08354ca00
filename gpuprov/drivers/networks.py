"""Networks, as drivers are told and tell them, and how nodes are attached to them and reached from outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gpuprov.drivers.base import LABEL_CLUSTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.drivers.base import Settings
    from gpuprov.drivers.foreign import Origin

LOCALLY, EVERYWHERE = "127.0.0.1", "0.0.0.0"  # noqa: S104 - where a forwarded port of the host may listen


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """One network interface of a node.

    Attributes:
        network: Name of the bridge.
        interface: Name inside the node, `eth0` or `eth1`.
        kind: `veth` (reaches host and outside) or `macvlan` (reaches other nodes only).
        address: Static IPv4 address with prefix length, such as `10.0.3.2/24`.
        mac: Fixed MAC address.
        gateway: Default route, or None.
    """

    network: str
    interface: str
    kind: Literal["veth", "macvlan"]
    address: str
    mac: str
    gateway: str | None = None


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """A port of the host that leads to a port of a node."""

    host_port: int
    node_port: int
    listen: str = LOCALLY


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


@dataclass(frozen=True, kw_only=True)
class NetworkState:
    """A network as the engine or the host shows it; `managed` says the engine made it.

    Attributes:
        settings: What the engine was told and what the host has of it, to compare with `Driver.network_settings`.
        subnets: Further subnets that are its own, where the engine knows of any.
        overlaid: The bridge of an overlay, where it is on one that the engine did not make.
        isolated: Of a network of ours, whether the host refuses connections to its nodes from elsewhere; None where it
            has no such bridge, or where this user cannot tell.
        guarded: The same of whether its nodes reach no more of the host than its label of ports says.
        refused: How many packets of its nodes to the host were refused since it has these rules; None as above.
        copy_of: Set where it is foreign because it has the labels of another one.
        joinable: Set where it is foreign because other members of the engine's own cluster have it alone: the cluster
            over hosts that they have it for. To such a cluster it is free here.
    """

    name: str
    managed: bool
    address: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    subnets: tuple[str, ...] = ()
    overlaid: str = ""
    isolated: bool | None = None
    guarded: bool | None = None
    refused: int | None = None
    copy_of: Origin | None = None
    joinable: str = ""

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
