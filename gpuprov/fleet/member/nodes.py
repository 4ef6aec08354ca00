"""What a controller has this host do with single nodes, each by the story that a user of this host would run."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.find_engine import engine_of_cluster, warn_of_silence
from gpuprov.cluster.retry_after_wait import act_on_cluster, act_on_nodes
from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.whole import dump_whole, parse_whole, recorded_whole
from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.core.names import check_cluster_name, check_node_name
from gpuprov.core.outcome import Outcome
from gpuprov.core.rollback import AGAIN
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_MEMBERS
from gpuprov.fleet.member.host_part import look_at_part
from gpuprov.fleet.member.told_part import tell_part
from gpuprov.lifecycle.changing import changing
from gpuprov.lifecycle.leaving import JobsPolicy, take_out_elsewhere
from gpuprov.lifecycle.out_of_service import Leave, NodesLeave
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.lifecycle.renew import renew_cluster
from gpuprov.lifecycle.start_stop import restore, snapshot, start_nodes, stop_nodes
from gpuprov.machine.survey import survey
from gpuprov.roles.departure import Departure
from gpuprov.roles.registry import ROLES
from gpuprov.shapes.base import raw
from gpuprov.shapes.members import FoundParts
from gpuprov.shapes.outcome import Changes

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.fleet.member.host_part import HostPart
    from gpuprov.machine.base import Host
    from gpuprov.shapes.orders import FindOrder, InServiceOrder, NodesOrder, OutOfServiceOrder, TellOrder
    from gpuprov.shapes.whole import WholeCluster


def serve_find(order: FindOrder, host: Host, reporter: Reporter) -> FoundParts:
    """The host's part of each of the clusters, by name."""
    names = {check_node_name(name) for name in order.nodes}
    seen = survey(host.engines, partial(_parts_with, names=names))
    seen.require_answer()
    warn_of_silence(seen.errors, reporter)
    found = {cluster: part for parts in seen.answers.values() for cluster, part in parts.items()}
    return FoundParts(parts={cluster: raw(tell_part(part, host=host.name)) for cluster, part in found.items()})


def _parts_with(driver: Driver, *, names: set[str]) -> dict[str, HostPart]:
    clusters = {node.labels[LABEL_CLUSTER] for node in driver.list_nodes() if node.ours and node.name in names}
    for network in driver.list_networks():
        if names & _named_by(network):
            clusters.add(network.labels[LABEL_CLUSTER])
    return {cluster: look_at_part(driver, observe_cluster(driver, cluster)) for cluster in sorted(clusters)}


def _named_by(network: NetworkState) -> set[str]:
    """The nodes of all hosts that are recorded with a network; none where that cannot be read: it may be another's."""
    recorded = network.labels.get(LABEL_MEMBERS)
    with suppress(GpuprovError):
        return {*parse_whole(recorded, source=f"network {network.name}").homes} if recorded else set()
    return set()


def serve_out_of_service(order: OutOfServiceOrder, host: Host, reporter: Reporter) -> Changes:
    """Take them out of service; refused while jobs run there, unless they are to end."""
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    departure = Departure(nodes=order.nodes, lost=order.lost)
    leave = Leave(state=observe_cluster(driver, order.cluster), departure=departure, elsewhere=order.elsewhere)
    take_out_elsewhere(driver, leave, _policy(order), reporter=reporter)
    return Changes(host=host.name, changed=())


def serve_in_service(order: InServiceOrder, host: Host, reporter: Reporter) -> Changes:
    """Put nodes back in service."""
    driver = engine_of_cluster(check_cluster_name(order.cluster), host.engines, reporter=reporter)
    state = observe_cluster(driver, order.cluster)
    for role in ROLES.values():
        role.put_back_in_service(driver, state, running=order.running, stopped=order.stopped)
    return Changes(host=host.name, changed=())


def serve_tell(order: TellOrder, host: Host, reporter: Reporter) -> Changes:
    """The other nodes of the cluster have come or gone."""
    name = check_cluster_name(order.cluster)

    def tell(driver: Driver, host: Host) -> Outcome:
        nothing = NodesLeave(nodes=(), leaves=())
        with changing(driver, host, lambda _: nothing, reads=lambda _: [name], reporter=reporter) as (_, readings):
            _record(driver, readings[name].state, order.whole)
            return Outcome(changed=renew_cluster(driver, name, readings[name], reporter=reporter))

    return Changes(host=host.name, changed=act_on_cluster(host, "", name, tell, reporter=reporter).changed)


def serve_nodes(order: NodesOrder, host: Host, reporter: Reporter) -> Changes:
    """Do it, by the verb's own story."""
    names = [check_node_name(name) for name in order.nodes]

    def change(driver: Driver, host: Host) -> Outcome:
        if order.whole:
            with host.lock(reporter):
                _record(driver, observe_cluster(driver, order.cluster), order.whole)
        return _act(order, driver, host, reporter)

    done = act_on_nodes(host, order.engine, names, change, reporter=reporter)
    return Changes(host=host.name, changed=done.changed)


def _record(driver: Driver, state: ClusterState, whole: WholeCluster) -> None:
    """Record the nodes of all hosts, unless that is older than what is recorded."""
    recorded = recorded_whole(state)
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


def _policy(order: OutOfServiceOrder | NodesOrder) -> JobsPolicy:
    return JobsPolicy(force=order.force, drain_s=order.drain_s)


def _act(order: NodesOrder, driver: Driver, host: Host, reporter: Reporter) -> Outcome:
    policy = _policy(order)
    if order.act == "start":
        return start_nodes(driver, order.nodes, host, reporter=reporter)
    if order.act in ("stop", "rm"):
        end = stop_nodes if order.act == "stop" else remove_nodes
        return end(driver, order.nodes, host, reporter=reporter, policy=policy)
    story = snapshot if order.act == "snapshot" else restore
    return story(driver, order.nodes[0], order.label, host, reporter=reporter, policy=policy)
