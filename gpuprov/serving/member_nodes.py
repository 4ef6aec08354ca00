"""What a controller has this host do with single nodes, each by the story that a user of this host would run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.find_engine import engine_of_cluster, engine_of_nodes, warn_of_silence
from gpuprov.cluster.retry_after_wait import act_on_engine
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.whole import dump_whole, parse_whole, recorded_whole
from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.core.names import check_cluster_name, check_node_name
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import AGAIN
from gpuprov.documents.host_part import tell_part
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_MEMBERS
from gpuprov.host.survey import survey
from gpuprov.planes.across.changing import changing
from gpuprov.planes.across.hold import Leave, NodesLeave
from gpuprov.planes.across.leaving import JobsPolicy, hold_elsewhere
from gpuprov.planes.across.renew import renew_cluster
from gpuprov.planes.base import Departure
from gpuprov.planes.over_hosts.host_part import look_at_part
from gpuprov.planes.registry import PLANES
from gpuprov.shapes.hardware import Hardware
from gpuprov.shapes.members import FoundParts
from gpuprov.shapes.outcome import Changes
from gpuprov.workflows.hardware import ask_this_machine, look_at_nodes
from gpuprov.workflows.remove_nodes import remove_nodes
from gpuprov.workflows.start_stop import restore, snapshot, start_nodes, stop_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.host.base import Host
    from gpuprov.planes.over_hosts.host_part import HostPart


@dataclass(frozen=True, kw_only=True)
class HardwareOrder:
    """`hardware`: the processors and GPUs of the host, and of its running nodes of a cluster."""

    cluster: str


@dataclass(frozen=True, kw_only=True)
class FindOrder:
    """`find`: what the host has of the clusters that have one of these nodes, here or on another host."""

    nodes: list[str]


@dataclass(frozen=True, kw_only=True)
class HoldOrder:
    """`hold`: keep jobs from nodes that are about to leave; asked of the host of the node that gives work.

    Attributes:
        nodes: All of them, also those on this host.
        lost: Those of them whose disk goes as well.
        elsewhere: Those of them that are on other hosts, and run.
        force: Whether jobs end.
        drain_s: How long jobs are waited for; below 0 not at all.
    """

    cluster: str
    nodes: list[str]
    lost: list[str]
    elsewhere: list[str]
    force: bool = False
    drain_s: float = -1.0


@dataclass(frozen=True, kw_only=True)
class ReleaseOrder:
    """`release`: let nodes of other hosts take jobs again.

    Attributes:
        running: Those that run.
        stopped: Those that do not.
    """

    cluster: str
    running: list[str]
    stopped: list[str]


@dataclass(frozen=True, kw_only=True)
class NodesOrder:
    """`nodes`: what a verb does with nodes of this host.

    Attributes:
        verb: One of ACTIONS.
        cluster: Theirs.
        label: Of a snapshot.
        whole: The nodes of all hosts as they are to be recorded before; empty where that stays as it is.
        force: Whether jobs end.
        drain_s: How long jobs are waited for; below 0 not at all.
    """

    verb: str
    cluster: str
    nodes: list[str]
    label: str = ""
    whole: str = ""
    force: bool = False
    drain_s: float = -1.0


@dataclass(frozen=True, kw_only=True)
class TellOrder:
    """`tell`: record the nodes of all hosts, and bring the nodes of this one to their files."""

    cluster: str
    whole: str = field(repr=False)


def serve_hardware(order: HardwareOrder, host: Host, reporter: Reporter) -> Hardware:
    """What `hardware` tells there."""
    connect = partial(engine_of_cluster, check_cluster_name(order.cluster), host.engines, reporter=reporter)
    own = ask_this_machine()
    try:
        nodes = look_at_nodes(connect, order.cluster)
    except GpuprovError as error:
        reporter.warn(f"without nodes: {error.what}; {error.evidence}")
        nodes = ()
    return Hardware(host=host.name, hardware=own, nodes=nodes)


def serve_find(order: FindOrder, host: Host, reporter: Reporter) -> FoundParts:
    """The host's part of each of the clusters, by name."""
    names = {check_node_name(name) for name in order.nodes}
    seen = survey(host.engines, partial(_parts_with, names=names))
    seen.require_answer()
    warn_of_silence(seen.errors, reporter)
    found = {cluster: part for parts in seen.answers.values() for cluster, part in parts.items()}
    return FoundParts(parts={cluster: tell_part(part, host=host.name) for cluster, part in found.items()})


def _parts_with(driver: Driver, *, names: set[str]) -> dict[str, HostPart]:
    clusters = {node.labels[LABEL_CLUSTER] for node in driver.list_nodes() if node.ours and node.name in names}
    for network in driver.list_networks():
        if names & _named_by(network):
            clusters.add(network.labels[LABEL_CLUSTER])
    return {cluster: look_at_part(driver, cluster) for cluster in sorted(clusters)}


def _named_by(network: NetworkState) -> set[str]:
    """The nodes of all hosts that are recorded with a network; none where that cannot be read: it may be another's."""
    recorded = network.labels.get(LABEL_MEMBERS)
    with suppress(GpuprovError):
        return {*parse_whole(recorded, source=f"network {network.name}").homes} if recorded else set()
    return set()


def serve_hold(order: HoldOrder, host: Host, reporter: Reporter) -> Changes:
    """Hold them; refused while jobs run there, unless they are to end."""
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    departure = Departure(nodes=tuple(order.nodes), lost=tuple(order.lost))
    leave = Leave(state=observe_cluster(driver, order.cluster), departure=departure, elsewhere=tuple(order.elsewhere))
    hold_elsewhere(driver, leave, _policy(order), reporter=reporter)
    return Changes(host=host.name, changed=())


def serve_release(order: ReleaseOrder, host: Host, reporter: Reporter) -> Changes:
    """Undo `hold`."""
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    state = observe_cluster(driver, order.cluster)
    for plane in PLANES.values():
        plane.release(driver, state, running=order.running, stopped=order.stopped)
    return Changes(host=host.name, changed=())


def serve_tell(order: TellOrder, host: Host, reporter: Reporter) -> Changes:
    """The other nodes of the cluster have come or gone."""
    name = check_cluster_name(order.cluster)

    def tell(driver: Driver, host: Host) -> Outcome:
        nothing = NodesLeave(nodes=(), leaves=())
        with changing(driver, host, lambda _: nothing, reads=lambda _: [name], reporter=reporter) as (_, readings):
            _record(driver, readings[name].state, order.whole)
            return Outcome(changed=renew_cluster(driver, name, readings[name], reporter=reporter))

    find = partial(engine_of_cluster, name, host.engines, reporter=reporter)
    return Changes(host=host.name, changed=act_on_engine(host, find, tell).changed)


def serve_nodes(order: NodesOrder, host: Host, reporter: Reporter) -> Changes:
    """Do it, by the verb's own story."""
    if order.verb not in ACTIONS:
        raise UsageError(
            f"members do not know how to {order.verb!r:.60} nodes", evidence=", ".join(ACTIONS), fix="gpuprov host list"
        )
    names = [check_node_name(name) for name in order.nodes]

    def change(driver: Driver, host: Host) -> Outcome:
        if order.whole:
            with host.lock(reporter):
                _record(driver, observe_cluster(driver, order.cluster), order.whole)
        return ACTIONS[order.verb](order, driver, host, reporter)

    find = partial(engine_of_nodes, names, host.engines, reporter=reporter, absent_too=True)
    return Changes(host=host.name, changed=act_on_engine(host, find, change).changed)


def _record(driver: Driver, state: ClusterState, text: str) -> None:
    """Record the nodes of all hosts, unless that is older than what is recorded."""
    whole, recorded = parse_whole(text, source="the request"), recorded_whole(state)
    if recorded is None or (recorded != whole and recorded.serial >= whole.serial):
        raise UsageError(
            f"cluster {state.name} has been changed from another machine",
            evidence=f"recorded is state {recorded.serial if recorded else 'none'}, this would be {whole.serial}",
            fix=f"{AGAIN}; what there is now: gpuprov cluster status {state.name}",
        )
    if recorded == whole:
        return
    network = next(network for network in state.own_networks if network.labels.get(LABEL_MEMBERS))
    driver.set_network_labels(network.name, {LABEL_MEMBERS: dump_whole(whole)})


def _policy(order: HoldOrder | NodesOrder) -> JobsPolicy:
    return JobsPolicy(force=order.force, drain_s=order.drain_s if order.drain_s >= 0 else None)


def _start(order: NodesOrder, driver: Driver, host: Host, reporter: Reporter) -> Outcome:
    return start_nodes(driver, order.nodes, host, reporter=reporter)


def _stop(order: NodesOrder, driver: Driver, host: Host, reporter: Reporter) -> Outcome:
    return stop_nodes(driver, order.nodes, host, reporter=reporter, policy=_policy(order))


def _rm(order: NodesOrder, driver: Driver, host: Host, reporter: Reporter) -> Outcome:
    return remove_nodes(driver, order.nodes, host, reporter=reporter, policy=_policy(order))


def _snapshot(order: NodesOrder, driver: Driver, host: Host, reporter: Reporter) -> Outcome:
    return snapshot(driver, order.nodes[0], order.label, host, reporter=reporter, policy=_policy(order))


def _restore(order: NodesOrder, driver: Driver, host: Host, reporter: Reporter) -> Outcome:
    return restore(driver, order.nodes[0], order.label, host, reporter=reporter, policy=_policy(order))


ACTIONS: Final[Mapping[str, Callable[[NodesOrder, Driver, Host, Reporter], Outcome]]] = {
    "start": _start,
    "stop": _stop,
    "rm": _rm,
    "snapshot": _snapshot,
    "restore": _restore,
}
