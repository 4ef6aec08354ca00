"""What a host and all its engines have besides one cluster: what its networks and nodes must keep clear of."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Interface, IPv4Network
from itertools import chain
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.cluster.choice import choose, refuse_taken_networks
from gpuprov.cluster.network_plan import network_requests
from gpuprov.cluster.taken import Holder, Taken
from gpuprov.core.errors import UsageError
from gpuprov.core.names import CLUSTER
from gpuprov.core.nearest import ask_back, find_nearest
from gpuprov.drivers.base import LABEL_BEGUN, LABEL_CLUSTER, LABEL_SPEC
from gpuprov.machine.links import Link
from gpuprov.machine.survey import survey
from gpuprov.spec.serialize import load_spec_json
from gpuprov.spec.shared_folder import SHARED, folder_of, overlaps
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.errors import GpuprovError
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.machine.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.spec.draft import Draft

_NUMBERED = re.compile(r"(.*[^0-9])[0-9]{3}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """What an engine has that is not the cluster's."""

    engine: str
    networks: Sequence[NetworkState]
    nodes: Sequence[NodeState]

    @property
    def specs(self) -> Iterator[ClusterSpec]:
        """Of the clusters that it has, as far as they can be read."""
        for network in self.networks:
            for text in filter(None, (network.labels.get(label) for label in (LABEL_SPEC, LABEL_BEGUN))):
                with suppress(SpecError):
                    yield load_spec_json(text, cluster=network.labels.get(LABEL_CLUSTER, ""))

    @property
    def our_nodes(self) -> Iterator[NodeState]:
        """Those that gpuprov made."""
        return (node for node in self.nodes if node.ours)

    @property
    def shared_folders(self) -> Iterator[tuple[str, str]]:
        """Cluster and folder of the host, by the specs and by the nodes."""
        yield from ((spec.name, folder_of(spec)) for spec in self.specs if folder_of(spec))
        for node in self.our_nodes:
            yield from ((node.labels[LABEL_CLUSTER], found.source) for found in node.mounts if found.target == SHARED)


class ClusterSlip(UsageError):
    """A new cluster's name is like that of another one: nothing was made."""


class Surroundings:
    """The host around a cluster; it is looked at only where something is to be chosen or made.

    Args:
        driver: The cluster's engine.
        host: The machine.
        state: The cluster.

    Attributes:
        silent: Why engines that were looked at do not respond: nobody knows which names and subnets they have.
    """

    def __init__(self, driver: Driver, host: Host, state: ClusterState) -> None:
        self._driver, self._host, self._state = driver, host, state
        self.silent: Mapping[str, GpuprovError] = {}

    def settle(self, draft: Draft) -> ClusterSpec:
        """Fill in what was left open: as the cluster has it, or with what is free where there is no such cluster yet.

        The networks of an earlier gpuprov that do not tell what they were made for have what it preferred.

        Raises:
            UsageError: Nothing is free.
        """
        known = self._state.settled
        if known is not None:
            return draft.filled(known)
        return choose(draft, self.taken) if draft.left and not self._state.own_networks else draft.spec

    def describe_new(self) -> str:
        """That the cluster is a new one, and which ones there are besides, in a sentence; empty where there are none.

        Who adds a node expects it in a cluster that exists: a name may have been left out or mistyped.
        """
        name, clusters = self._state.name, self._other_clusters()
        if not clusters:
            return ""
        there = ", ".join(f"{label} ({engine})" for label, engine in clusters)
        meant = ask_back([name], {label for label, _ in clusters} - {name})
        undo = f"to remove it: gpuprov cluster down {name} --engine {self._driver.name}"
        return f"cluster {name} on {self._driver.name} is new; there are also {there}{meant}; {undo}"

    def refuse_slip(self, node: str) -> None:
        """Refuse to begin a cluster for a node where the name of another one is so like it that it may be meant.

        Names that differ in their numbers alone, such as lab and lab2, are no slips.

        Raises:
            ClusterSlip: There is such a cluster.
        """
        name, clusters = self._state.name, self._other_clusters()
        near = find_nearest(name, {label for label, _ in clusters} - {name})
        if near and _NUMBER.sub("", near) != _NUMBER.sub("", name):
            raise ClusterSlip(
                f"there is no cluster {name}; did you mean {near}?",
                evidence=f"clusters: {', '.join(f'{label} ({engine})' for label, engine in clusters)}",
                fix=f"gpuprov create-node {node} --cluster {near}; "
                f"or create a cluster of that name first: gpuprov cluster up -n 1 --name {name}",
            )

    def _other_clusters(self) -> list[tuple[str, str]]:
        """Those of this host, each with its engine."""
        held = [
            (labels.get(LABEL_CLUSTER, ""), seen.engine)
            for seen in self._others
            for labels in (*(one.labels for one in seen.networks), *(one.labels for one in seen.our_nodes))
        ]
        return sorted({(label, engine) for label, engine in held if CLUSTER.fullmatch(label)})

    def refuse_taken_by_others(self, spec: ClusterSpec, *, private: bool = True) -> None:
        """Refuse networks that are to be made and that something else has; `private` where both are needed.

        Raises:
            NotOurs: A name is taken by what gpuprov did not make.
            UsageError: A name is taken by another cluster, or a subnet is in use.
        """
        own = {network.name for network in self._state.own_networks}
        requests = network_requests(spec, version=__version__)[: 2 if private else 1]
        missing = [request for request in requests if request.name not in own]
        if missing:
            refuse_taken_networks(spec, missing, self.taken)

    def refuse_shared_by_others(self, folder: str) -> None:
        """Refuse a folder that is another cluster's, or in it, or around it.

        Raises:
            UsageError: That cluster is named.
        """
        sharers = self.find_sharers(folder)
        if sharers:
            raise UsageError(
                f"the folder {folder} cannot be shared by nodes of cluster {self._state.name}",
                evidence=sharers[0],
                fix="use another folder: --share FOLDER, or `share` in the spec; or another --name",
            )

    def find_sharers(self, folder: str) -> tuple[str, ...]:
        """Other clusters that have a folder, or one in it or around it, in words."""
        found = {(seen.engine, *shared): None for seen in self._others for shared in seen.shared_folders}
        return tuple(
            f"cluster {cluster} on {engine} shares {path}" for engine, cluster, path in found if overlaps(folder, path)
        )

    def find_copies(self, folder: str) -> tuple[str, ...]:
        """Foreign instances that mount a folder, or one in it or around it, as copies of nodes do, in words."""
        return tuple(
            f"the instance {node.name} on {seen.engine} mounts {mount.source}"
            for seen in self._others
            for node in seen.nodes
            for mount in node.mounts
            if not node.ours and overlaps(folder, mount.source)
        )

    @cached_property
    def taken(self) -> Taken:
        """What others have, on every engine that responds."""
        own = {network.name for network in (*self._state.own_networks, *self._joinable)}
        return describe_taken(
            self._others,
            interfaces=[name for name in self._host.interfaces() if name not in own],
            links=[link for link in self._host.links() or () if link.interface not in own],
        )

    @property
    def _joinable(self) -> tuple[NetworkState, ...]:
        """The networks that other hosts of this cluster have, and this host with them once it has a part in it."""
        return tuple(network for network in self._state.networks if network.joinable == self._state.name)

    @cached_property
    def _others(self) -> tuple[Holdings, ...]:
        """What every engine that responds has besides the cluster."""
        state, doors = self._state, [door for door in self._host.engines if door.name != self._driver.name]
        seen = survey(doors, _holdings)
        self.silent = seen.errors
        networks = [network for network in state.networks if network not in (*state.own_networks, *self._joinable)]
        here = Holdings(engine=self._driver.name, networks=networks, nodes=state.others)
        return (here, *seen.answers.values())


def _holdings(driver: Driver) -> Holdings:
    """Of another engine; what it does not manage the host shows."""
    networks = [network for network in driver.list_networks() if network.managed]
    return Holdings(engine=driver.name, networks=networks, nodes=driver.list_nodes())


def describe_taken(engines: Sequence[Holdings], *, interfaces: Sequence[str], links: Sequence[Link]) -> Taken:
    """Put together what was seen."""
    names = {name: Holder(evidence=f"this host has an interface {name}") for name in interfaces}
    for seen in engines:
        names |= {network.name: _describe(network, seen.engine) for network in seen.networks}
    specs = [spec for seen in engines for spec in seen.specs]
    nodes = [node for seen in engines for node in seen.our_nodes]
    numbered = filter(None, (_NUMBERED.fullmatch(node.name) for node in nodes))
    return Taken(
        names=names,
        links=(*links, *chain.from_iterable(map(_subnets_of, specs)), *chain.from_iterable(map(_links_of, engines))),
        nodes=frozenset(node.name for seen in engines for node in seen.nodes),
        prefixes=frozenset((*(spec.nodes.prefix for spec in specs), *(match[1] for match in numbered))),
    )


def _describe(network: NetworkState, engine: str) -> Holder:
    cluster = network.labels.get(LABEL_CLUSTER, "")
    if cluster:
        return Holder(cluster=cluster, evidence=f"{engine}: label {LABEL_CLUSTER}={cluster}")
    return Holder(evidence=f"address {network.address or 'none'}, managed by {engine}: {network.managed}")


def _links_of(seen: Holdings) -> Iterator[Link]:
    for network in seen.networks:
        for text in filter(None, (network.address, *network.subnets)):
            with suppress(ValueError):
                interface = IPv4Interface(text)
                address = interface if text == network.address else None
                yield Link(interface=network.name, network=interface.network, address=address)
    for node in seen.our_nodes:
        for text in node.addresses.values():
            with suppress(ValueError):
                interface = IPv4Interface(text)
                yield Link(interface=f"node {node.name}", network=interface.network, address=interface)


def _subnets_of(spec: ClusterSpec) -> Iterator[Link]:
    """Those of a cluster, also while its bridges are away; the private one has no address on the host at all."""
    network = spec.network
    for interface, subnet in ((network.bridge, network.subnet), (network.private_bridge, network.private_subnet)):
        with suppress(ValueError):
            yield Link(interface=f"{interface} of cluster {spec.name}", network=IPv4Network(subnet))
