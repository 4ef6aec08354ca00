"""`cluster down`: remove everything that carries the cluster's label, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.built_images import find_build_networks, remove_left_build
from gpuprov.cluster.find_engine import find_elsewhere
from gpuprov.cluster.lost_nodes import describe_lost_nodes
from gpuprov.cluster.nodes import delete_nodes
from gpuprov.cluster.programs import programs_of_people
from gpuprov.cluster.purge import describe_kept, find_doomed
from gpuprov.cluster.scrubbed import tell_of_leaving
from gpuprov.cluster.secrets import key_folder, remove_keys
from gpuprov.cluster.service_folders import remove_service_folders
from gpuprov.cluster.state import observe_cluster, observe_engine, with_snapshots
from gpuprov.cluster.whole import recorded_host
from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.names import check_cluster_name
from gpuprov.core.outcome import Outcome, with_forced
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ROLE, LABEL_SPEC
from gpuprov.drivers.foreign import NetworkInUse
from gpuprov.lifecycle.changing import changing
from gpuprov.lifecycle.leaving import SPARE_JOBS, leaving, refuse_busy
from gpuprov.lifecycle.out_of_service import Leave, NodesLeave
from gpuprov.roles.base import spec_of
from gpuprov.roles.departure import Departure
from gpuprov.roles.registry import ROLES, role_of, roles_of
from gpuprov.spec.shared_folder import own_place

if TYPE_CHECKING:
    from gpuprov.cluster.state import ClusterState, EngineState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.machine.base import Host


@dataclass(frozen=True, kw_only=True)
class DownLosses:
    """What would go with a cluster.

    Attributes:
        lines: In words; none where there is nothing.
        busy: Why it is refused, where jobs would end that nobody has said are to.
    """

    lines: tuple[str, ...]
    busy: UsageError | None = None


def foresee_losses(
    driver: Driver, name: str, host: Host, policy: JobsPolicy, *, purge: bool = False, look_inside: bool = False
) -> DownLosses:
    """What `cluster_down` would remove and end; changes nothing.

    Args:
        driver: The engine.
        name: The cluster.
        host: The machine.
        policy: What becomes of jobs; where it is agreed to, another host tells of them.
        purge: Whether the folder that the nodes shared goes too.
        look_inside: Whether nodes are asked for programs of people.

    Raises:
        GpuprovError: The folder would not be removed.
    """
    (leave,) = _look(name, policy, observe_engine(driver)).leaves
    state, busy = leave.state, None
    doomed = find_doomed(driver, host, state, ROLES.outliving_folders(name)) if purge else ()
    roles = roles_of(node.labels.get(LABEL_ROLE, "") for node in state.nodes)
    along = [line for role in roles for line in role.goes_along(spec_of(state))]
    at = f"{recorded_host(state)}: " if recorded_host(state) else ""  # one of several hosts
    nodes = describe_lost_nodes(with_snapshots(driver, state.nodes))
    lines = [*(f"{at}{line}" for line in nodes), *(() if policy.agreed else along)]
    try:
        refuse_busy(driver, [] if policy.agreed else [leave], SPARE_JOBS)
    except UsageError as error:
        lines.append(f"{error.what}: {error.evidence}")
        busy = None if policy.force or policy.drain_s is not None else error
    running = [node.name for node in state.nodes if node.status == "running"]
    lines += programs_of_people(driver, running) if look_inside else ()
    titles = {one.source: f", {one.title}" for one in ROLES.outliving_folders(name)}
    lines += [f"{folder} with all its contents{titles.get(folder, '')}" for folder in doomed]
    if not lines and state.own_networks:
        lines.append(f"{at}networks: {', '.join(network.name for network in state.own_networks)}")
    return DownLosses(lines=tuple(lines), busy=busy)


def cluster_down(
    driver: Driver,
    name: str,
    host: Host,
    *,
    reporter: Reporter,
    policy: JobsPolicy = SPARE_JOBS,
    purge: bool = False,
) -> Outcome:
    """Remove a cluster's nodes, networks (with their NAT rules) and this user's keys; images stay for the next time.

    The keys stay where another engine has, or may have, a cluster of that name: they are that one's too.
    The folder that the nodes shared stays, and what services recorded, unless they are to be purged.

    Args:
        driver: The engine.
        name: The cluster.
        host: The machine.
        reporter: Is told what goes on.
        policy: What becomes of jobs, also of those that wait.
        purge: Remove these folders, with all that is in them.

    Raises:
        UsageError: There are jobs, it is no cluster's name, or the folder is not gpuprov's; nothing was changed.
    """
    check_cluster_name(name)
    beside = ROLES.outliving_folders(name)
    if purge:
        find_doomed(driver, host, observe_cluster(driver, name), beside)  # before jobs are waited for
    with changing(driver, host, partial(_look, name, policy), policy, reporter=reporter) as (found, _):
        (leave,) = found.leaves
        state, nodes = leave.state, leave.departure.nodes
        doomed = find_doomed(driver, host, state, beside) if purge else ()
        kept = () if purge else describe_kept(host, state, beside)
        forced = {}
        if nodes:
            leaves = [] if policy.agreed else [leave]
            with leaving(driver, leaves, policy, reporter=reporter), reporter.phase("nodes"):
                forced = delete_nodes(driver, nodes, reporter=reporter)
        spec = spec_of(state)
        kept_by = () if policy.goes_on else ROLES.service_folders(spec)
        forgotten = remove_service_folders(driver, host, spec, nodes, kept_by)
        overlay = host.overlays.remove(name) if recorded_host(state) else ()
        networks = _remove_networks(driver, state, host, reporter)
        changed = [with_forced("removed node", node, forced) for node in nodes]
        changed += [*forgotten, *(line.replace("remove ", "removed ", 1) for line in overlay)]
        changed += [f"removed network {network}" for network in networks]
        if _remove_keys(driver, name, host, reporter):
            changed.append("removed the ssh keys")
        for folder in doomed:
            host.folders.set_aside(folder)
            changed.append(f"removed the folder {folder}")
    tell_of_leaving([(state, nodes)], reporter)
    for line in kept:
        reporter.note(line)
    if purge:  # without the lock, for it may hold millions of files
        with reporter.phase("shared folder"):
            for folder in (own_place(name), *(one.source for one in beside)):
                host.folders.clear(folder)
    return Outcome(changed=tuple(changed))


def _remove_networks(driver: Driver, state: ClusterState, host: Host, reporter: Reporter) -> list[str]:
    """Remove the cluster's networks but those that foreign instances are on, such as copies of its nodes.

    With them goes what a killed image build left: its node may be on them, if an earlier gpuprov made it.
    """
    if not state.own_networks and not find_build_networks(state.networks):
        return []
    with reporter.phase("networks"):
        with host.image_lock_if_free() as free:
            if free:
                try:
                    remove_left_build(driver, state.networks, reporter)
                except EngineError as error:  # the cluster's own networks can go all the same
                    reporter.warn(f"leftovers of an interrupted image build remain: {error.what}: {error.evidence}")
        # What is recorded goes last: by it a controller finds what a killed run left on its hosts.
        networks = sorted(state.own_networks, key=lambda network: LABEL_SPEC in network.labels)
        return [network.name for network in networks if _remove_network(driver, network, reporter)]


def _remove_network(driver: Driver, network: NetworkState, reporter: Reporter) -> bool:
    try:
        driver.delete_network(network.name)
    except NetworkInUse as error:
        again = f"gpuprov cluster down {network.labels[LABEL_CLUSTER]} --engine {driver.name}"
        reporter.warn(f"kept the network {network.name}: in use {error.evidence}; after detaching them, run: {again}")
        return False
    return True


def _look(name: str, policy: JobsPolicy, engine: EngineState) -> NodesLeave:
    """The whole cluster leaves."""
    state = engine.cluster(name)
    nodes = tuple(node.name for node in state.nodes)
    spec = spec_of(state)
    controllers = () if policy.goes_on else role_of(spec.nodes.role).controller_names(spec)  # also on other hosts
    departure = Departure(nodes=nodes, lost=tuple(dict.fromkeys((*nodes, *controllers))))
    return NodesLeave(nodes=state.nodes, leaves=[Leave(state=state, departure=departure)])


def _remove_keys(driver: Driver, name: str, host: Host, reporter: Reporter) -> bool:
    if not key_folder(name).exists():
        return False
    others = find_elsewhere(name, host.engines, without=driver.name)
    again = f"gpuprov cluster down {name} --engine {driver.name}"
    for words in others:
        reporter.warn(f"kept the ssh keys: {words}; when it no longer exists: {again}")
    return not others and remove_keys(name)
