"""The difference between the cluster that is asked for and the one that is there: a pure function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING, Protocol, cast

from gpuprov.cluster.design import NodeDesign, design_node
from gpuprov.cluster.drift import Drift, find_drift
from gpuprov.cluster.leases import leased_uuids
from gpuprov.cluster.networks import attach, plan_networks, plan_repairs
from gpuprov.cluster.node_order import read_order
from gpuprov.cluster.placement import place
from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.drivers.base import LABEL_ADDRESS, LABEL_CLUSTER, LABEL_PRIVATE_ADDRESS, LABEL_ROLE, LABEL_SHARING
from gpuprov.drivers.foreign import describe_foreign
from gpuprov.gpu.allocate import LeaseRequest, allocate
from gpuprov.gpu.spec_order import request_of_spec
from gpuprov.spec.addressing import node_name, number_of_name, private_address, public_address
from gpuprov.spec.variables import overlay_variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cluster.placement import Place
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Capability, NetworkRequest, NodeRequest, NodeState, Settings
    from gpuprov.gpu.models import Gpu
    from gpuprov.spec.models import ClusterSpec, Sharing


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What would be done, in this order.

    Attributes:
        networks: To make.
        network_repairs: Networks that were changed, each with its differences.
        remove: Nodes beyond the count, and half-made ones.
        create: Nodes to make.
        repair: Nodes that are not as asked; done in place.
        start: Nodes that are stopped.
        keep: Nodes that are as asked.
        drift: For each node of `repair`, what differs.
    """

    networks: tuple[NetworkRequest, ...]
    network_repairs: tuple[tuple[NetworkRequest, str], ...]
    remove: tuple[str, ...]
    create: tuple[NodeDesign, ...]
    repair: tuple[NodeDesign, ...]
    start: tuple[str, ...]
    keep: tuple[NodeDesign, ...]
    drift: Mapping[str, Drift]

    @property
    def restart(self) -> tuple[str, ...]:
        """The running nodes of `repair` that start again for it."""
        return tuple(name for name, drift in self.drift.items() if drift.restart)

    @property
    def members(self) -> tuple[NodeDesign, ...]:
        """Every node of the cluster once the plan is done, by name."""
        return tuple(sorted((*self.create, *self.repair, *self.keep), key=lambda design: design.name))

    def lines(self) -> tuple[str, ...]:
        """One line for each change; empty when there is nothing to do."""
        return (
            *(f"create network {request.name} {request.address or '(nodes only)'}" for request in self.networks),
            *(f"repair network {request.name}: {words}" for request, words in self.network_repairs),
            *(f"remove node {name}" for name in self.remove),
            *(
                f"create node {design.name} {design.address} role {design.role}, "
                f"{len(design.gpus)} GPU {design.sharing} ({design.access})"
                for design in self.create
            ),
            *(f"repair node {design.name}: {self.drift[design.name].words}" for design in self.repair),
            *(f"restart node {name}" for name in self.restart),
            *(f"start node {name}" for name in self.start),
        )


class Expect(Protocol):
    """What an engine supports, and shows for unmodified objects: the part of a Driver that a plan needs."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can."""

    def settings(self, request: NodeRequest) -> Settings:
        """Of a node."""

    def network_settings(self, request: NetworkRequest) -> Settings:
        """Of a network."""


def plan_cluster(
    spec: ClusterSpec, state: ClusterState, places: Sequence[Place], *, version: str, expect: Expect
) -> Plan:
    """Compare spec and state.

    Nodes without a numbered name (from create-node) are kept, with the options that create-node was given. A node keeps
    its address and, if they still match, its GPUs.

    Raises:
        NotOurs: A name that is needed is taken by something foreign.
        UsageError: It is taken by another cluster, an address is taken, or the GPUs do not suffice.
    """
    networks = plan_networks(spec, state, version=version)
    wanted = [node_name(spec.nodes.prefix, number) for number in range(spec.nodes.count)]
    numbered = {node.name for node in state.nodes if number_of_name(node.name, prefix=spec.nodes.prefix) is not None}
    broken = {node.name for node in state.nodes if not node.complete}
    extra = [node.name for node in state.nodes if node.name not in numbered and node.name not in broken]
    remove = sorted((numbered - set(wanted)) | broken)
    names = [*wanted, *extra]
    _refuse_taken_names(names, state)
    staying = replace(state, nodes=tuple(node for node in state.nodes if node.name not in remove))
    designs = _design(names, spec, staying, places)
    repairs = plan_repairs(spec, state, version=version, expect=expect.network_settings)
    sorted_out = _sort(designs, state, remove=tuple(remove), expect=expect)
    return replace(sorted_out, networks=networks, network_repairs=repairs)


def _sort(designs: tuple[NodeDesign, ...], state: ClusterState, *, remove: tuple[str, ...], expect: Expect) -> Plan:
    create, repair, start, keep = [], [], [], []
    drift = {}
    live = "devices-live" in expect.capabilities
    for design in designs:
        node = None if design.name in remove else state.node(design.name)
        if node is None:
            create.append(design)
            continue
        found = find_drift(design, node, expect.settings(design.request()), live=live)
        if found.words:
            repair.append(design)
            drift[design.name] = found
        else:
            keep.append(design)
        if node.status != "running":
            start.append(design.name)
    return Plan(
        networks=(),
        network_repairs=(),
        remove=remove,
        create=tuple(create),
        repair=tuple(repair),
        start=tuple(start),
        keep=tuple(keep),
        drift=drift,
    )


def _refuse_taken_names(names: list[str], state: ClusterState) -> None:
    for node in state.others:
        if node.name not in names:
            continue
        if not node.ours:
            raise NotOurs(
                f"the name {node.name} is taken by {describe_foreign(node)}",
                evidence=f"{node.name} is {node.status}; it has no gpuprov label, or those of another instance",
                fix=f"set another nodes.prefix in the spec; about that instance: gpuprov show {node.name}",
            )
        raise UsageError(
            f"the name {node.name} is taken by cluster {node.labels[LABEL_CLUSTER]}",
            evidence=f"label gpuprov.cluster={node.labels[LABEL_CLUSTER]}",
            fix="set another nodes.prefix in the spec",
        )


def _design(
    names: list[str], spec: ClusterSpec, state: ClusterState, places: Sequence[Place]
) -> tuple[NodeDesign, ...]:
    """Lease GPUs on the host of each node, and design the nodes around them."""
    common = request_of_spec(spec, places[0].gpus, node=spec.name)
    requests = [_kept_lease(name, spec, state.node(name)) or replace(common, node=name) for name in names]
    placed = place(requests, places)
    leases: dict[str, tuple[Gpu, ...]] = {}
    for one in places:
        mine = [request for request in requests if placed[request.node] == one.host]
        leases |= allocate(one.gpus, one.leases, mine, claims=one.claims)
    homes = {one.host: one for one in places}
    taken = state.taken_addresses()
    return tuple(
        design_node(
            _spec_of(state.node(request.node), spec),
            request.node,
            attachments=attach(spec, request.node, _addresses(request.node, spec, state, taken)),
            gpus=leases[request.node],
            sharing=request.sharing,
            place=homes[placed[request.node]],
        )
        for request in requests
    )


def _spec_of(node: NodeState | None, spec: ClusterSpec) -> ClusterSpec:
    """The cluster's spec with what create-node was asked for, and the role that the node has."""
    if node is None:
        return spec
    nodes = replace(spec.nodes, role=node.labels.get(LABEL_ROLE) or spec.nodes.role)
    order = read_order(node)
    if order is not None:
        privileged = order.privileged or nodes.privileged
        environment = overlay_variables(nodes.environment, order.environment)
        mounts = (*nodes.mounts, *order.mounts)
        nodes = replace(nodes, mounts=mounts, environment=environment, privileged=privileged)
    return replace(spec, nodes=nodes)


def _kept_lease(name: str, spec: ClusterSpec, node: NodeState | None) -> LeaseRequest | None:
    """What a node that create-node made was given, exclusive or shared, none too; None for the cluster's own nodes."""
    if node is None or not (read_order(node) or number_of_name(name, prefix=spec.nodes.prefix) is None):
        return None
    held = leased_uuids(node)
    sharing = cast("Sharing", node.labels.get(LABEL_SHARING) or spec.gpus.sharing)
    return LeaseRequest(node=name, sharing=sharing, count=len(held), wanted=held)


def _addresses(name: str, spec: ClusterSpec, state: ClusterState, taken: dict[str, str]) -> dict[str, IPv4Interface]:
    """A node's address by interface: those it was given, whatever its number, else those that go with its number."""
    node = state.node(name)
    given = _given_addresses(node, spec) if node else {}
    if given:
        return given
    if node is not None and node.addresses:
        return {interface: IPv4Interface(address) for interface, address in node.addresses.items()}
    number = number_of_name(name, prefix=spec.nodes.prefix)
    if number is None:
        raise UsageError(
            f"{name} has lost its addresses",
            evidence="its instance has no fixed address",
            fix=f"gpuprov rm {name}, then create it again",
        )
    addresses = {"eth0": public_address(number, spec.network), "eth1": private_address(number, spec.network)}
    for address in addresses.values():
        if str(address.ip) in taken:
            raise UsageError(
                f"the address {address.ip} of {name} is in use",
                evidence=f"by {taken[str(address.ip)]}",
                fix="stop or change that instance, or use another subnet in the spec; gpuprov list --all shows it",
            )
    return addresses


def _given_addresses(node: NodeState, spec: ClusterSpec) -> dict[str, IPv4Interface]:
    """The addresses in its labels, which are valid even if its configuration was changed."""
    places = (
        ("eth0", LABEL_ADDRESS, spec.network.subnet),
        ("eth1", LABEL_PRIVATE_ADDRESS, spec.network.private_subnet),
    )
    return {
        interface: IPv4Interface(f"{node.labels[label]}/{subnet.rpartition('/')[2]}")
        for interface, label, subnet in places
        if node.labels.get(label)
    }
