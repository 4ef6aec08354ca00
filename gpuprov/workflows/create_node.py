"""`create-node`: one more node, in its cluster or as the first of one."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.cluster.design import NodeDesign, design_node, with_offers
from gpuprov.cluster.images import ensure_node_image, get_named_image
from gpuprov.cluster.leases import host_neighbours, read_leases
from gpuprov.cluster.networks import attach, ensure_networks, plan_networks
from gpuprov.cluster.nodes import Run, create_nodes, start_nodes
from gpuprov.cluster.room import refuse_host_conflicts
from gpuprov.cluster.secrets import undo_new_keys
from gpuprov.cluster.state import ClusterState, observe_cluster
from gpuprov.cluster.waiting_for_gpus import Patience, when_free
from gpuprov.core import execution
from gpuprov.core.errors import NotOurs, UsageError
from gpuprov.core.lock import host_lock
from gpuprov.core.names import check_node_name
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import Rollback
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ORDER
from gpuprov.gpu.allocate import allocate
from gpuprov.gpu.ask_spec import ask_of_node
from gpuprov.planes.files import plan_files
from gpuprov.planes.renew import follow_cluster
from gpuprov.planes.slurm.control import controller_name, renew_files
from gpuprov.planes.slurm.files import planned_member, present_member
from gpuprov.spec.addressing import (
    free_number,
    number_of_address,
    number_of_name,
    parse_address,
    private_address,
    public_address,
)
from gpuprov.spec.models import ClusterSpec, NodesSpec
from gpuprov.spec.validate import check_spec
from gpuprov.spec.variables import overlay_variables

if TYPE_CHECKING:
    from collections.abc import Callable
    from ipaddress import IPv4Interface

    from gpuprov.cluster.leases import Neighbours
    from gpuprov.cluster.node_order import NodeOrder
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, ImageState, NetworkRequest, NodeState
    from gpuprov.gpu.allocate import Claims
    from gpuprov.gpu.models import HostGpus

_ANSWER_S = 0.4  # long enough for a neighbour on a local bridge
_DISCARD_PORT = 9
_BUDGET_S = 10.0


def create_node(
    driver: Driver, order: NodeOrder, host: HostGpus, *, reporter: Reporter, patience: Patience | None = None
) -> Outcome:
    """Make one node and wait until it is ready; a node that the same order made is completed, or left as it is.

    Args:
        driver: The engine.
        order: The node.
        host: Its GPUs.
        reporter: Is told what goes on.
        patience: How long to wait for GPUs that others hold; None to be refused at once.

    Raises:
        UsageError: The name, the address or the GPUs cannot be had; nothing was changed.
        NotOurs: The name is taken by something foreign.
        TimedOut: The GPUs could not be had for as long as one was ready to wait.
    """
    check_node_name(order.name)
    host = with_offers(driver, host)

    def look(claims: Claims) -> None:
        state = observe_cluster(driver, order.cluster)
        _refuse_taken(order, driver.name, state)
        if _made_by(order, state) is None:
            _plan(driver, order, _without_half_made(order.name, state), host, claims)

    def attempt(claims: Callable[[], Claims], granted: Callable[[], object]) -> Outcome:
        with host_lock(reporter), Rollback(reporter) as rollback:
            run = Run(driver=driver, reporter=reporter, rollback=rollback)
            outcome = _create(run, order, host, claims)
            granted()
            return outcome

    patience = patience or Patience(neighbours=host_neighbours())
    return when_free(patience, driver.name, look=look, attempt=attempt, reporter=reporter)


def _create(run: Run, order: NodeOrder, host: HostGpus, claims: Callable[[], Claims]) -> Outcome:
    driver, reporter = run.driver, run.reporter
    with reporter.phase("plan"):
        state = observe_cluster(driver, order.cluster)
        _refuse_taken(order, driver.name, state)
        made = _made_by(order, state)
        if made is not None:
            return _complete(driver, made, reporter=reporter)
        if state.node(order.name) is not None:
            driver.delete_node(order.name)  # half-made by a killed run
            state = _without_half_made(order.name, state)
        plan = _plan(driver, order, state, host, claims())
    spec, design = plan.spec, plan.design
    if plan.networks:
        with reporter.phase("networks"):
            ensure_networks(driver, plan.networks, run.rollback)
    image = plan.image or ensure_node_image(driver, spec, design.role, host, reporter=reporter)
    old = [node for node in state.nodes if node.complete]
    members = [*(present_member(node) for node in old), planned_member(design)]
    members.sort(key=lambda member: member.name)
    undo_new_keys(spec.name, run.rollback)
    files = plan_files(driver, spec, state, members, {design.role: image}, controller=controller_name(spec))
    with reporter.phase("node"):
        labels = {LABEL_ORDER: order.label()}
        create_nodes(run, [design], image, files.for_new, labels=labels, source=order.source)
    with reporter.phase("slurm"):
        running = [node.name for node in old if node.status == "running"]
        up = [member for member in members if member.name in (*running, design.name)]
        renewed = renew_files(driver, spec, up, running, files.kept, reporter=reporter)
    return Outcome(changed=(_created(design), *renewed))


def _without_half_made(name: str, state: ClusterState) -> ClusterState:
    """The state without what a killed run left of this node, which would hold its address and its GPUs."""
    return replace(state, nodes=tuple(node for node in state.nodes if node.name != name))


def plan_node(driver: Driver, order: NodeOrder, host: HostGpus, *, neighbours: Neighbours | None = None) -> str:
    """What `create_node` would make, in a line; raises what it would refuse, and changes nothing."""
    check_node_name(order.name)
    host = with_offers(driver, host)
    state = observe_cluster(driver, order.cluster)
    _refuse_taken(order, driver.name, state)
    claims = (neighbours or host_neighbours()).claims(driver.name)
    return _created(_plan(driver, order, _without_half_made(order.name, state), host, claims).design)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """The requested node and its prerequisites; `image` is None if the role's own image is used."""

    spec: ClusterSpec
    networks: tuple[NetworkRequest, ...]
    design: NodeDesign
    image: ImageState | None


def _plan(driver: Driver, order: NodeOrder, state: ClusterState, host: HostGpus, claims: Claims) -> _Plan:
    spec = _spec_for(order, state)
    check_spec(spec)
    networks = plan_networks(spec, state, version=__version__)
    design = _design(order, spec, state, host, claims)
    image = None if order.image is None else get_named_image(driver, order.image)
    refuse_host_conflicts(driver, spec, networks=networks, nodes=1)
    if not networks and design.address:
        refuse_answering(design.address, spec.network.bridge, engine=driver.name)
    return _Plan(spec=spec, networks=networks, design=design, image=image)


def _created(design: NodeDesign) -> str:
    gpus = f"{len(design.gpus)} GPU {design.sharing} ({design.access})" if design.gpus else "no GPU"
    return f"created node {design.name} {design.address} role {design.role}, {gpus}"


def refuse_answering(address: str, bridge: str, *, engine: str) -> None:
    """Refuse an address at which something answers that no engine knows of.

    Raises:
        UsageError: A neighbour on the bridge has it.
    """
    answered = False
    try:
        socket.create_connection((address, _DISCARD_PORT), timeout=_ANSWER_S).close()
        answered = True
    except ConnectionRefusedError:
        answered = True
    except OSError:  # no answer, or the holder drops our packet but the kernel learned its MAC
        listing = execution.run(["ip", "-j", "neigh", "show", address, "dev", bridge], timeout_s=_BUDGET_S).stdout
        # a removed node stays a reachable neighbour for half a minute; the bridge forgets its port at once
        ports = execution.run(["bridge", "-j", "fdb", "show", "br", bridge], timeout_s=_BUDGET_S).stdout
        plugged = {entry["mac"] for entry in json.loads(ports or "[]")}
        answered = any(
            "REACHABLE" in entry["state"] and entry["lladdr"] in plugged for entry in json.loads(listing or "[]")
        )
    if answered:
        raise UsageError(
            f"the address {address} is in use",
            evidence=f"something on {bridge} that {engine} does not know responds at this address",
            fix="choose another address: gpuprov list shows those of the nodes",
        )


def _made_by(order: NodeOrder, state: ClusterState) -> NodeState | None:
    node = state.node(order.name)
    return node if node and node.complete and node.labels.get(LABEL_ORDER) == order.label() else None


def _complete(driver: Driver, node: NodeState, *, reporter: Reporter) -> Outcome:
    """Do what a run that was killed after it had made the node left undone."""
    stopped = [node.name] if node.status != "running" else []
    if stopped:
        start_nodes(driver, stopped, reporter=reporter)
    renewed = follow_cluster(driver, node.labels[LABEL_CLUSTER], reporter=reporter)
    return Outcome(changed=(*(f"started {name}" for name in stopped), *renewed))


def _refuse_taken(order: NodeOrder, engine: str, state: ClusterState) -> None:
    name = order.name
    for node in (*state.nodes, *state.others):
        if node.name != name:
            continue
        if not node.ours:
            raise NotOurs(
                f"the name {name} is taken by an instance that gpuprov did not create",
                evidence=f"{engine} has {name}, {node.status}, without a gpuprov label",
                fix="choose another name",
            )
        if node.complete and _made_by(order, state) is None:
            raise UsageError(
                f"the name {name} is taken",
                evidence=f"cluster {node.labels[LABEL_CLUSTER]} has a node {name} ({node.status}), "
                "which was created by a different command",
                fix=f"choose another name, or remove it: gpuprov rm {name}",
            )


def _spec_for(order: NodeOrder, state: ClusterState) -> ClusterSpec:
    spec = state.spec or ClusterSpec(name=order.cluster, nodes=NodesSpec(role="plain", count=1))
    role = order.role or spec.nodes.role
    if role == "slurm" and not state.slurm_nodes and order.name != controller_name(spec):
        raise UsageError(
            f"cluster {spec.name} has no Slurm controller for {order.name} to join",
            evidence=f"the controller would be {controller_name(spec)}, but there is no such node",
            fix="gpuprov cluster up -n 4, or --role plain",
        )
    stopped = [node for node in state.slurm_nodes if node.name == controller_name(spec) and node.status != "running"]
    if role == "slurm" and stopped:
        raise UsageError(
            f"the controller {stopped[0].name} of cluster {spec.name} is {stopped[0].status}",
            evidence=f"it runs Slurm's controller, and {order.name} has to register with it",
            fix=f"gpuprov start {stopped[0].name}, or --role plain",
        )
    nodes = replace(
        spec.nodes,
        role=role,
        mounts=(*spec.nodes.mounts, *order.mounts),
        environment=overlay_variables(spec.nodes.environment, order.environment),
        privileged=order.privileged or spec.nodes.privileged,
    )
    return replace(spec, nodes=nodes)


def _design(order: NodeOrder, spec: ClusterSpec, state: ClusterState, host: HostGpus, claims: Claims) -> NodeDesign:
    addresses = _addresses(order, spec, state)
    request = ask_of_node(order.wish, state.spec or ClusterSpec(), host).request(order.name)
    there = read_leases((*state.nodes, *state.others), engine=claims.engine)
    gpus = allocate(host, there, [request], claims=claims)[order.name]
    return design_node(
        spec,
        order.name,
        attachments=attach(spec, order.name, addresses),
        gpus=gpus,
        sharing=request.sharing,
        host=host,
    )


def _addresses(order: NodeOrder, spec: ClusterSpec, state: ClusterState) -> dict[str, IPv4Interface]:
    taken = state.taken_addresses()
    number = number_of_name(order.name, prefix=spec.nodes.prefix)
    if order.address is not None:
        public = parse_address(order.address, spec.network, taken)
        number = number_of_address(public)
    elif number is None or str(public_address(number, spec.network).ip) in taken:
        number = free_number(spec.network, taken)
    public, private = public_address(number, spec.network), private_address(number, spec.network)
    if str(private.ip) in taken:
        raise UsageError(
            f"the private address {private.ip}, which belongs to {public.ip}, is in use",
            evidence=f"by {taken[str(private.ip)]}",
            fix="choose another --addr: gpuprov list shows the addresses in use",
        )
    return {
        "both": {"eth0": public, "eth1": private},
        "nat": {"eth0": public},
        "private": {"eth1": private},
    }[order.network]
