"""The difference between the cluster that is asked for and the one that is there: a pure function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING, cast

from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ROLE
from gpuprov.gpu.allocate import LeaseRequest, allocate
from gpuprov.spec.addressing import node_name, number_of_name, private_address, public_address
from gpuprov.spec.devices import CharDevice
from gpuprov.workflows.leases import leased_uuids, read_leases
from gpuprov.workflows.networks import attach, plan_networks
from gpuprov.workflows.node_design import NodeDesign, changed_labels, design_node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import NetworkRequest, NodeState
    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.devices import Mount
    from gpuprov.spec.models import ClusterSpec, Role
    from gpuprov.workflows.cluster_state import ClusterState


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What would be done, in this order.

    Attributes:
        networks: To make.
        remove: Nodes beyond the count, and half-made ones.
        create: Nodes to make.
        repair: Nodes whose devices, mounts or labels are not as asked; done in place.
        start: Nodes that are stopped.
        keep: Nodes that are as asked.
        differences: For each node of `repair`, what differs.
    """

    networks: tuple[NetworkRequest, ...]
    remove: tuple[str, ...]
    create: tuple[NodeDesign, ...]
    repair: tuple[NodeDesign, ...]
    start: tuple[str, ...]
    keep: tuple[NodeDesign, ...]
    differences: dict[str, str]

    @property
    def members(self) -> tuple[NodeDesign, ...]:
        """Every node of the cluster once the plan is done, by name."""
        return tuple(sorted((*self.create, *self.repair, *self.keep), key=lambda design: design.name))

    def lines(self) -> tuple[str, ...]:
        """One line for each change; empty when there is nothing to do."""
        return (
            *(f"create network {request.name} {request.address or '(nodes only)'}" for request in self.networks),
            *(f"remove node {name}" for name in self.remove),
            *(
                f"create node {design.name} {design.address} role {design.role}, "
                f"{len(design.gpus)} GPU {design.sharing} ({design.access})"
                for design in self.create
            ),
            *(f"repair node {design.name}: {self.differences[design.name]}" for design in self.repair),
            *(f"start node {name}" for name in self.start),
        )


def plan_cluster(spec: ClusterSpec, state: ClusterState, host: HostGpus, *, version: str) -> Plan:
    """Compare spec and state.

    Nodes named otherwise than `prefix` and number (made by create-node) stay. A node keeps its address and, where
    they still fit, its GPUs.

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
    designs = _design(names, spec, replace(state, nodes=tuple(n for n in state.nodes if n.name not in remove)), host)
    return _sort(designs, state, networks=networks, remove=tuple(remove))


def _sort(
    designs: tuple[NodeDesign, ...],
    state: ClusterState,
    *,
    networks: tuple[NetworkRequest, ...],
    remove: tuple[str, ...],
) -> Plan:
    create, repair, start, keep = [], [], [], []
    differences = {}
    for design in designs:
        node = None if design.name in remove else state.node(design.name)
        if node is None:
            create.append(design)
            continue
        found = _differences(design, node)
        if found:
            repair.append(design)
            differences[design.name] = found
        else:
            keep.append(design)
        if node.status != "running":
            start.append(design.name)
    return Plan(
        networks=networks,
        remove=remove,
        create=tuple(create),
        repair=tuple(repair),
        start=tuple(start),
        keep=tuple(keep),
        differences=differences,
    )


def _differences(design: NodeDesign, node: NodeState) -> str:
    """What of a node is not as designed, in words; empty if nothing."""
    found = []
    if set(node.devices) != set(design.devices):
        found.append(f"devices {_paths(node.devices)} instead of {_paths(design.devices)}")
    if set(node.mounts) != set(design.mounts):
        found.append(f"mounts {_paths(node.mounts)} instead of {_paths(design.mounts)}")
    found += [
        f"{key} {node.labels.get(key, '') or 'unset'} instead of {value or 'unset'}"
        for key, value in changed_labels(design, node.labels).items()
        if key not in ("gpuprov.version", "gpuprov.fingerprint")
    ]
    return "; ".join(found)


def _paths(things: Iterable[CharDevice | Mount]) -> str:
    paths = [thing.path if isinstance(thing, CharDevice) else thing.target for thing in things]
    return ",".join(sorted(paths)) or "none"


def _refuse_taken_names(names: list[str], state: ClusterState) -> None:
    for node in state.others:
        if node.name not in names:
            continue
        if not node.ours:
            raise NotOurs(
                f"the name {node.name} is taken by an instance that gpuprov did not make",
                evidence=f"{node.name} is {node.status} and has no gpuprov label",
                fix="set another nodes.prefix in the spec, or rename that instance",
            )
        raise UsageError(
            f"the name {node.name} is taken by cluster {node.labels[LABEL_CLUSTER]}",
            evidence=f"label gpuprov.cluster={node.labels[LABEL_CLUSTER]}",
            fix="set another nodes.prefix in the spec",
        )


def _design(names: list[str], spec: ClusterSpec, state: ClusterState, host: HostGpus) -> tuple[NodeDesign, ...]:
    requests = [
        LeaseRequest(
            node=name,
            sharing=spec.gpus.sharing,
            count=spec.gpus.per_node,
            wanted=_kept_selection(name, spec, state),
        )
        for name in names
    ]
    leases = allocate(host, read_leases((*state.nodes, *state.others)), requests)
    taken = state.taken_addresses()
    designs = []
    for name in names:
        role = cast("Role", _label(state, name, LABEL_ROLE) or spec.nodes.role)
        designs.append(
            design_node(
                replace(spec, nodes=replace(spec.nodes, role=role)),
                name,
                attachments=attach(spec, name, _addresses(name, spec, state, taken)),
                gpus=leases[name],
                sharing=spec.gpus.sharing,
                host=host,
            )
        )
    return tuple(designs)


def _kept_selection(name: str, spec: ClusterSpec, state: ClusterState) -> tuple[str, ...]:
    """Nodes outside the numbering keep what create-node gave them."""
    node = state.node(name)
    if node is None or number_of_name(name, prefix=spec.nodes.prefix) is not None:
        return ()
    return leased_uuids(node)


def _label(state: ClusterState, name: str, key: str) -> str:
    node = state.node(name)
    return node.labels.get(key, "") if node else ""


def _addresses(name: str, spec: ClusterSpec, state: ClusterState, taken: dict[str, str]) -> dict[str, IPv4Interface]:
    """A node's address by interface: those it has, whatever its number, else those that go with its number."""
    node = state.node(name)
    if node is not None and node.addresses:
        return {interface: IPv4Interface(address) for interface, address in node.addresses.items()}
    number = number_of_name(name, prefix=spec.nodes.prefix)
    if number is None:
        raise UsageError(
            f"{name} has lost its addresses",
            evidence="its instance fixes none",
            fix=f"gpuprov rm {name}, then create it again",
        )
    addresses = {"eth0": public_address(number, spec.network), "eth1": private_address(number, spec.network)}
    for address in addresses.values():
        if str(address.ip) in taken:
            raise UsageError(
                f"the address {address.ip} of {name} is in use",
                evidence=f"by {taken[str(address.ip)]}",
                fix=f"remove or change {taken[str(address.ip)].split()[-1]}, or use another subnet in the spec",
            )
    return addresses
