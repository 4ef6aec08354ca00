"""What one host is to do for a cluster that spans hosts, and what it says of its part: values and pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuprov.cluster.overlay_request import encrypt, request_overlay
from gpuprov.cluster.slices import spec_on
from gpuprov.cluster.tunnels import request_tunnel
from gpuprov.cluster.whole import dump_whole, recorded_host, recorded_whole
from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_HOST, LABEL_MEMBERS, LABEL_SPEC
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import MTU_LEAST
from gpuprov.shapes.whole import WholeCluster
from gpuprov.spec.serialize import dump_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cluster.placement import Place
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.overlay.plan import OverlayRequest
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.whole import Member


@dataclass(frozen=True, kw_only=True)
class ClusterPart:
    """A host's part of a cluster.

    Attributes:
        spec: The whole cluster's, with all that was left open filled in, such as the addresses of the hosts.
        host: The host's name in it.
        nodes: Names of the spec's nodes that it is to have.
        whole: The nodes of all hosts.
        secret: What the nodes of the cluster's role share, where a controller says it; it is never shown.
        sssd: The site's sssd.conf that the spec names; empty for none. It is never shown either.
    """

    spec: ClusterSpec
    host: str
    nodes: tuple[str, ...]
    whole: WholeCluster = field(default_factory=WholeCluster)
    secret: bytes = field(default=b"", repr=False)
    sssd: str = field(default="", repr=False)

    @property
    def local_spec(self) -> ClusterSpec:
        """The spec as this host carries it out."""
        return spec_on(self.spec, self.host)

    @property
    def labels(self) -> dict[str, str]:
        """What is recorded on this host."""
        return {
            LABEL_SPEC: dump_spec(self.spec),
            LABEL_HOST: self.host,
            LABEL_MEMBERS: dump_whole(self.whole),
        }

    def place(self, place: Place) -> Place:
        """The host as the planning of these nodes sees it."""
        return replace(place, nodes=frozenset(self.nodes), taken=self.whole.addresses_beside(self.host))

    def overlay(self, driver: Driver) -> OverlayRequest | None:
        """This host's end of the overlay; None where there is none."""
        addresses = {host.name: host.internal_ip for host in self.spec.hosts if host.internal_ip is not None}
        has_bridge = "private-bridge" in driver.capabilities
        mtu = self.spec.network.overlay.mtu or MTU_LEAST
        overlay = request_overlay(self.spec, self.host, addresses, mtu=mtu, has_bridge=has_bridge)
        tunnel = request_tunnel(self.spec, self.host, addresses, self.whole.tunnels, mtu=mtu)
        return encrypt(overlay, tunnel) if overlay and tunnel else overlay

    def matches(self, planned: Sequence[Member]) -> bool:
        """Whether the nodes of all hosts have on this one what is planned here."""
        mine = [changed(member, host="", cpus=0, memory_bytes=0) for member in self.whole.on(self.host)]
        return mine == list(planned)

    def refuse_changed(self, planned: Sequence[Member], recorded: WholeCluster | None) -> None:
        """Refuse to act where something has changed since the hosts agreed.

        Raises:
            UsageError: The nodes planned here are others now, or another controller has changed the cluster.
        """
        again = f"gpuprov cluster status {self.spec.name}"
        if not self.matches(planned):
            raise UsageError(
                f"nodes or GPUs of cluster {self.spec.name} on {self.host} have changed since they were planned",
                evidence=f"another command has changed {self.host}",
                fix=again,
            )
        if recorded is None or recorded == self.whole or recorded.serial < self.whole.serial:
            return
        raise UsageError(
            f"cluster {self.spec.name} has been changed from another machine",
            evidence=f"{self.host} has its state {recorded.serial}, this would be state {self.whole.serial}",
            fix=again,
        )


def recorded_overlay(driver: Driver, state: ClusterState) -> OverlayRequest | None:
    """This host's end of a cluster's overlay, as it is recorded here; None where there is none.

    Raises:
        GpuprovError: The record cannot be read.
    """
    name, spec = recorded_host(state), state.spec
    if not name or spec is None:
        return None
    whole = recorded_whole(state) or WholeCluster()
    return ClusterPart(spec=spec, host=name, nodes=(), whole=whole).overlay(driver)
