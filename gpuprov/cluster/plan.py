"""The difference between the cluster that is asked for and the one that is there: a pure function."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import IPv4Interface, IPv4Network
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from gpuprov.cluster.design import NodeDesign, design_node
from gpuprov.cluster.drift import Drift, find_drift
from gpuprov.cluster.held_gpus import leased_uuids, sharing_of
from gpuprov.cluster.lost_nodes import lost_nodes_line
from gpuprov.cluster.network_plan import (
    NetworkPlan,
    attach,
    networks_without_rules,
    plan_networks,
    plan_repairs,
    plan_rules,
)
from gpuprov.cluster.node_limits import given_limits, unlimited_lines
from gpuprov.cluster.order_label import describe_unread, read_order, refuse_unread
from gpuprov.cluster.ordered_node import with_order
from gpuprov.cluster.recorded_changes import describe_changes
from gpuprov.cluster.replacements import ghosts_of
from gpuprov.cluster.scrubbed import refuse_shared
from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.core.names import fold
from gpuprov.core.outcome import with_forced
from gpuprov.drivers.base import (
    LABEL_ADDRESS,
    LABEL_CLUSTER,
    LABEL_ORDER,
    LABEL_PRIVATE_ADDRESS,
    LABEL_ROLE,
    LABEL_SHARING,
)
from gpuprov.drivers.foreign import describe_foreign, lack_of_foreign
from gpuprov.gpu.allocate import LeaseRequest, allocate
from gpuprov.gpu.spec_order import request_of_spec
from gpuprov.shapes.nodes import describe_shared
from gpuprov.spec.addressing import node_name, number_of_name, private_address, public_address
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gpuprov.cluster.placement import Place
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import NodeRequest, NodeState
    from gpuprov.drivers.capabilities import Capability
    from gpuprov.drivers.networks import NetworkRequest
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.node import Settings

_RECORDED: Final = re.compile(r"(\S+: )?record jobs\.")  # a line of a plan, over hosts with its host


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What would be done, in this order.

    Attributes:
        networks: What they lack.
        network_repairs: Networks that were changed, each with its differences.
        isolate: Networks that lack rules, as after a reboot, or are to have others.
        rules: The same in words, one line for each difference.
        remove: Nodes beyond the count, and half-made ones.
        gone: Those of them that were complete.
        create: Nodes to make.
        repair: Nodes that are not as asked; done in place.
        start: Nodes that are stopped.
        keep: Nodes that are as asked.
        beside: Nodes that stay though the spec does not have them: create-node or clone made them.
        drift: For each node of `repair`, what differs.
        recorded: What differs from the recorded spec in limits of jobs, people, partitions, QOS and backup, in lines.
        replace: Nodes of `remove` that are made again as they were, from a newer image.
        unread: What is given up of the options with which nodes were created, by node: this version does not know it.
    """

    networks: NetworkPlan
    network_repairs: tuple[tuple[NetworkRequest, str], ...]
    isolate: tuple[str, ...]
    rules: tuple[str, ...]
    remove: tuple[str, ...]
    create: tuple[NodeDesign, ...]
    repair: tuple[NodeDesign, ...]
    start: tuple[str, ...]
    keep: tuple[NodeDesign, ...]
    drift: Mapping[str, Drift]
    beside: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def restart(self) -> tuple[str, ...]:
        """The running nodes of `repair` that start again for it."""
        return tuple(name for name, drift in self.drift.items() if drift.restart)

    @property
    def members(self) -> tuple[NodeDesign, ...]:
        """Every node of the cluster once the plan is done, by name."""
        return tuple(sorted((*self.create, *self.repair, *self.keep), key=lambda design: design.name))

    @property
    def shared(self) -> str:
        """That nodes of the cluster will share GPUs, in words; empty where each has its own."""
        return describe_shared((design.host, design.gpus) for design in self.members)

    def beside_lines(self) -> tuple[str, ...]:
        """One line for each node that stays beside those of the spec."""
        return tuple(f"keep node {name} (from create-node); --prune removes it" for name in self.beside)

    def role_lines(self, role: str) -> tuple[str, ...]:
        """One line if nodes of the spec have another role than the one that it has now."""
        others = {design.name: design.role for design in self.members if design.role != role}
        names = [name for name in others if name not in self.beside]
        return (f"{fold(names)}: keep the role {others[names[0]]}; new nodes get the role {role}",) if names else ()

    def unlimited_lines(self) -> tuple[str, ...]:
        """A line for the nodes that stay without limits of processes and memory; none where there are none."""
        return unlimited_lines((*self.keep, *self.repair))

    def loss_line(self) -> str:
        """What is lost with the nodes that are to go; empty where none is."""
        return f"remove {lost_nodes_line(self.gone)}" if self.gone else ""

    def lines(self, forced: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
        """One line for each change, with what was `forced` of a node; empty when there is nothing to do."""
        return (
            *self.networks.lines(),
            *(f"repair network {request.name}: {words}" for request, words in self.network_repairs),
            *self.rules,
            *(with_forced("remove node", name, forced) for name in self.remove if name not in self.replace),
            *(f"create node {design.summary}" for design in self.create if design.name not in self.replace),
            *(with_forced("replace node", name, forced) for name in self.replace),
            *(f"repair node {design.name}: {self.drift[design.name].words}" for design in self.repair),
            *(with_forced("restart node", name, forced) for name in self.restart),
            *(f"start node {name}" for name in self.start),
            *self.recorded,
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


def plan_cluster(  # noqa: PLR0913 - what is wanted, what is there, and what may go
    spec: ClusterSpec,
    state: ClusterState,
    place: Place,
    *,
    version: str,
    expect: Expect,
    prune: bool = False,
    again: Collection[str] = (),
    gives_up: bool = False,
) -> Plan:
    """Compare spec and state.

    Nodes from create-node and clone are kept, with the options that they were given. A node keeps its address and, if
    they still match, its GPUs.

    Args:
        state: What is there.
        place: Where the nodes are to be.
        version: Of gpuprov.
        prune: Remove every node that the spec does not have.
        again: Nodes to remove and make again, as they are but for their image.
        gives_up: Do without the options of nodes that this version does not know.

    Raises:
        NotOurs: A name that is needed is taken by something foreign.
        UsageError: Another cluster has it, an address is taken, the GPUs do not suffice, or options are not known.
        NotCapable: The engine cannot make such a node.
    """
    networks = plan_networks(spec, state, version=version)
    ghosts = ghosts_of(state)
    replaced = tuple(sorted(node.name for node in state.nodes if node.name in again and node.complete))
    wanted = [node_name(spec.nodes.prefix, number) for number in range(spec.nodes.count)]
    wanted = wanted if place.nodes is None else [name for name in wanted if name in place.nodes]
    gone, beside = sort_surplus(spec, state, wanted, prune=prune)
    beside += sort_surplus(spec, replace(state, nodes=ghosts), wanted, prune=prune)[1]
    remove = sorted({*gone, *replaced, *(node.name for node in state.nodes if not node.complete)})
    names = [*wanted, *beside]
    _refuse_taken_names(names, state)
    kept = [node for node in state.nodes if node.name not in remove or node.name in replaced]
    staying = replace(state, nodes=(*kept, *ghosts))
    away = {node.name for node in ghosts}
    held = tuple(lease for lease in place.leases if lease.node in names or lease.node not in {*remove, *away})
    unread = describe_unread(node for node in staying.nodes if node.name in names)
    refuse_unread({} if gives_up else unread, spec.name, version=version, alone=place.nodes is None)
    designs = _design(names, spec, staying, replace(place, leases=held), fresh={*replaced, *away})
    refuse_shared(spec, designs)
    return replace(
        _sort(designs, state, remove=tuple(remove), expect=expect, unread=unread),
        networks=networks,
        network_repairs=plan_repairs(spec, state, networks, version=version, expect=expect.network_settings),
        isolate=networks_without_rules(spec, state),
        rules=plan_rules(spec, state),
        beside=beside,
        replace=replaced,
        gone=gone,
        recorded=() if isinstance(state.recorded, SpecError) else describe_changes(spec, state.recorded),
    )


def sort_surplus(
    spec: ClusterSpec, state: ClusterState, wanted: Collection[str], *, prune: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The complete nodes that are not `wanted`: those that are to go, and those that stay beside the spec's."""
    more = [node for node in state.nodes if node.complete and node.name not in wanted]
    beside = tuple(
        node.name
        for node in more
        if not prune and (node.labels.get(LABEL_ORDER) or number_of_name(node.name, prefix=spec.nodes.prefix) is None)
    )
    return tuple(node.name for node in more if node.name not in beside), beside


def beyond_record(changed: Iterable[str]) -> bool:
    """Whether lines of plans tell of anything besides limits of jobs, of which the nodes themselves notice nothing."""
    return not all(_RECORDED.match(line) for line in changed)


def _sort(
    designs: tuple[NodeDesign, ...],
    state: ClusterState,
    *,
    remove: tuple[str, ...],
    expect: Expect,
    unread: Mapping[str, str],
) -> Plan:
    create, repair, start, keep = [], [], [], []
    drift = {}
    live = "devices-live" in expect.capabilities
    for design in designs:
        node = None if design.name in remove else state.node(design.name)
        if node is None:
            expect.settings(design.request())  # for what the engine refuses
            create.append(design)
            continue
        found = find_drift(design, node, expect.settings(design.request()), live=live)
        if design.name in unread:
            found = replace(found, words="; ".join(filter(None, (f"gives up {unread[design.name]}", found.words))))
        if found.words:
            repair.append(design)
            drift[design.name] = found
        else:
            keep.append(design)
        if node.status != "running":
            start.append(design.name)
    return Plan(
        networks=NetworkPlan(),
        network_repairs=(),
        isolate=(),
        rules=(),
        remove=remove,
        create=tuple(create),
        repair=tuple(repair),
        start=tuple(start),
        keep=tuple(keep),
        drift=drift,
        unread=unread,
    )


def _refuse_taken_names(names: list[str], state: ClusterState) -> None:
    for node in state.others:
        if node.name not in names:
            continue
        if not node.ours:
            raise NotOurs(
                f"the name {node.name} is taken by {describe_foreign(node)}",
                evidence=f"{node.name} is {node.status}; {lack_of_foreign(node)}",
                fix=f"set another nodes.prefix in the spec; about that instance: gpuprov show {node.name}",
            )
        raise UsageError(
            f"the name {node.name} is taken by cluster {node.labels[LABEL_CLUSTER]}",
            evidence=f"label gpuprov.cluster={node.labels[LABEL_CLUSTER]}",
            fix="set another nodes.prefix in the spec",
        )


def _design(
    names: list[str], spec: ClusterSpec, state: ClusterState, place: Place, *, fresh: Collection[str]
) -> tuple[NodeDesign, ...]:
    """Lease GPUs, and design the nodes around them; those that are made again have limits as new ones have."""
    common = request_of_spec(spec, place.gpus, node=spec.name)
    requests = [_kept_lease(name, spec, state.node(name)) or replace(common, node=name) for name in names]
    leases = allocate(place.gpus, place.leases, requests, claims=place.claims, cluster=spec.name)
    taken = {**place.taken, **state.taken_addresses()}
    return tuple(
        design_node(
            _spec_of(node, spec),
            request.node,
            attachments=attach(spec, request.node, _addresses(request.node, spec, state, taken)),
            gpus=leases[request.node],
            sharing=request.sharing,
            place=replace(place, limits=partial(given_limits, node)) if node and node.name not in fresh else place,
        )
        for request, node in ((request, state.node(request.node)) for request in requests)
    )


def _spec_of(node: NodeState | None, spec: ClusterSpec) -> ClusterSpec:
    """The cluster's spec with what create-node was asked for, and the role that the node has."""
    if node is None:
        return spec
    return with_order(spec, node.labels.get(LABEL_ROLE) or spec.nodes.role, read_order(node))


def _kept_lease(name: str, spec: ClusterSpec, node: NodeState | None) -> LeaseRequest | None:
    """What a node that create-node made was given, exclusive or shared, none too; None for the cluster's own nodes."""
    number = number_of_name(name, prefix=spec.nodes.prefix)
    own = number is not None and number < spec.nodes.count
    if node is None or (own and not read_order(node)):
        return None
    held = leased_uuids(node)
    sharing = sharing_of(node) if node.labels.get(LABEL_SHARING) else spec.gpus.sharing
    return LeaseRequest(node=name, sharing=sharing, count=len(held), wanted=held)


def _addresses(name: str, spec: ClusterSpec, state: ClusterState, taken: dict[str, str]) -> dict[str, IPv4Interface]:
    """A node's address by interface: those it was given, whatever its number, else those that go with its number."""
    node = state.node(name)
    for found in (_given_addresses(node, spec), _fixed_addresses(node)) if node else ():
        if found:
            return found
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
                fix="stop or change that instance, or use another subnet in the spec; list it: gpuprov list --all",
            )
    return addresses


def _given_addresses(node: NodeState, spec: ClusterSpec) -> dict[str, IPv4Interface]:
    """The addresses in its labels, which are valid even if its configuration was changed; none if one is damaged."""
    labels = {LABEL_ADDRESS: spec.network.subnet, LABEL_PRIVATE_ADDRESS: spec.network.private_subnet}
    given = {
        interface: _read_address(node.labels[label], IPv4Network(labels[label]))
        for interface, label in (("eth0", LABEL_ADDRESS), ("eth1", LABEL_PRIVATE_ADDRESS))
        if node.labels.get(label)
    }
    return {interface: address for interface, address in given.items() if address} if all(given.values()) else {}


def _fixed_addresses(node: NodeState) -> dict[str, IPv4Interface]:
    """The addresses in its configuration."""
    fixed = {interface: _read_address(address) for interface, address in node.addresses.items()}
    return {interface: address for interface, address in fixed.items() if address}


def _read_address(text: str, subnet: IPv4Network | None = None) -> IPv4Interface | None:
    """An address with its prefix length, that of the subnet if there is one; None for anything else."""
    try:
        address = IPv4Interface(text)
    except ValueError:
        return None
    if subnet is None:
        return address
    return IPv4Interface((address.ip, subnet.prefixlen)) if address.ip in subnet else None
