"""What verbs share where a cluster spans hosts: how it is found, and how what its hosts say is shown.

The stories over hosts load much of gpuprov: they are imported only where hosts were added.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from gpuprov.cli.failure import show_result as show_result  # noqa: PLC0414
from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.agree import HostsUpOrder
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.host.remote.hosts import HostsBySsh
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.planes.across.leaving import JobsPolicy


def remembered_hosts() -> Mapping[str, RemoteMachine]:
    """Those that `host add` has remembered."""
    from gpuprov.host.remote.inventory import read_machines
    from gpuprov.host.remote.places import ensure_places

    return read_machines(ensure_places().inventory)


def way_to_hosts(session: Session, reporter: Reporter | None = None) -> HostsBySsh:
    """By ssh; what hosts say of their progress, `reporter` is told, or else the session's."""
    from gpuprov.host.remote.hosts import HostsBySsh

    return HostsBySsh(members=session.members, reporter=reporter or session.reporter)


def find_spanning_cluster(session: Session, name: str, engine: str | None) -> SpanningCluster | None:
    """The cluster of that name where it spans hosts; None where it is on this host alone, or nowhere.

    Without hosts that were added, nobody is asked.
    """
    from gpuprov.cli.open_fleet import open_fleet

    fleet = open_fleet(session, engine)
    if not fleet.others:
        return None
    from gpuprov.fleet.hosted_cluster import find_over_hosts

    return find_over_hosts(fleet, name)


def spanning_order(session: Session, wanted: Mapping[str, Any], policy: JobsPolicy) -> HostsUpOrder | None:
    """What `cluster up` or `cluster plan` is asked for; None where that does not span hosts."""
    from gpuprov.cli.cluster_spec import cluster_order
    from gpuprov.fleet.agree import HostsUpOrder
    from gpuprov.planes.across.cluster_order import resolve_name, resolve_spanning

    order, engine = cluster_order(wanted), cast("str | None", wanted["engine"])
    found = None if order.file else find_spanning_cluster(session, resolve_name(order), engine)
    draft = resolve_spanning(order, engine, found.spec if found else None)
    if draft is None:
        return None
    if wanted.get("renew"):
        name = draft.spec.name
        raise UsageError(
            f"nodes of cluster {name} are not replaced by --renew: it spans hosts",
            evidence=f"hosts: {', '.join(host.name for host in draft.spec.hosts)}",
            fix=f"replace them one by one: gpuprov rm NODE; {name_cluster('gpuprov cluster up', name)}",
        )
    return HostsUpOrder(
        draft=draft,
        known=remembered_hosts(),
        policy=policy,
        keep_on_failure=bool(wanted.get("keep_on_failure")),
        verify=bool(wanted.get("verify")),
        prune=bool(wanted.get("prune")),
        found=found,
    )


def up(session: Session, order: HostsUpOrder) -> int:
    """`cluster up` over hosts."""
    from msgspec import UNSET

    from gpuprov.cli.next_steps import next_steps
    from gpuprov.cli.node_table import render_nodes
    from gpuprov.cli.verify_table import render_report
    from gpuprov.fleet.host_statuses import host_statuses
    from gpuprov.shapes.outcome import ClusterUp
    from gpuprov.stories.cluster_up import up_over_hosts

    result = up_over_hosts(order, way_to_hosts(session), reporter=session.reporter)
    text = ["\n".join(result.outcome.changed) or ("" if result.error else "unchanged")]
    if result.report:
        text += ["", render_report(result.report, colour=session.colour)]
    if result.rows:
        table = render_nodes(result.rows, colour=session.colour, spans=True)
        text += ["", table, "", next_steps(result.spec, result.rows)]
    document = ClusterUp(
        host=session.host.name,
        changed=result.outcome.changed,
        verify=result.report or UNSET,
        nodes=result.rows,
        hosts=host_statuses((host.name for host in result.spec.hosts), result.failed, result.away),
    )
    return show_result(session, document, "\n".join(text), result.error, 0 if result.passed else 1)


def plan(session: Session, order: HostsUpOrder) -> int:
    """`cluster plan` over hosts."""
    from msgspec import UNSET

    from gpuprov.shapes.outcome import Plan
    from gpuprov.stories.cluster_up import look_and_plan_over_hosts

    planned = look_and_plan_over_hosts(order, way_to_hosts(session), reporter=session.reporter)
    text = "\n".join((*(planned.lines or (nothing_to_do(planned.older),)), *planned.older, *planned.unlimited))
    document = Plan(
        host=session.host.name,
        plan=planned.lines,
        older=planned.older,
        unlimited=planned.unlimited or UNSET,
    )
    return show_result(session, document, text, planned.error, 0)


def nothing_to_do(older: Sequence[str]) -> str:
    """What a plan without changes says to people."""
    return "nothing to do but to replace nodes" if older else "nothing to do: the cluster matches its spec"


def losses_of(seen: SpanningCluster) -> tuple[str, ...]:
    """What would go with a cluster over hosts: a line for each host with nodes; none where it has none."""
    from gpuprov.cluster.lost_nodes import lost_nodes_line

    nodes = {host: [row.name for row in seen.rows if row.host == host] for host in seen.machines}
    return tuple(f"{host}: {lost_nodes_line(names)}" for host, names in nodes.items() if names)


def refuse_purge(seen: SpanningCluster) -> None:
    """Refuse to remove a folder that hosts share, which they have mounted and gpuprov has not made.

    Raises:
        UsageError: Always.
    """
    from gpuprov.spec.shared_folder import folder_of

    folder = folder_of(seen.spec) if seen.spec else ""
    raise UsageError(
        f"no folder is removed with cluster {seen.name}, which spans hosts; nothing was removed",
        evidence=f"its hosts share {folder or 'none'}, and only folders of gpuprov's own place are removed",
        fix=f"without --purge: gpuprov cluster down {seen.name}",
    )


def down(session: Session, seen: SpanningCluster, policy: JobsPolicy) -> int:
    """`cluster down` over hosts."""
    from gpuprov.shapes.outcome import Changes
    from gpuprov.stories.cluster_down import down_over_hosts

    done = down_over_hosts(seen, way_to_hosts(session), policy)
    text = "\n".join(done.outcome.changed) or "unchanged"
    return show_result(session, Changes(host=session.host.name, changed=done.outcome.changed), text, done.error, 0)


def host_of_node(session: Session, node: str, engine: str | None) -> RemoteMachine | None:
    """The host that was added and has a node; None where this host has it, or no hosts were added."""
    known = remembered_hosts() if engine is None else {}
    if not known:
        return None
    from gpuprov.fleet.hosted_cluster import get_host_of_node

    return None if nodes_here(session, [node]) else get_host_of_node(node, known, way_to_hosts(session))[0]


def run_on_host(session: Session, machine: RemoteMachine, words: Sequence[str]) -> int:
    """Run a command of the gpuprov there, with this terminal's input and output; returns its exit status."""
    from gpuprov.host.remote.install_paths import PROGRAM

    said = {"--quiet": session.quiet, "--verbose": session.verbose, "--json": session.as_json}
    flags = [flag for flag, given in said.items() if given]
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and not session.as_json
    session.members.close()  # that may take hours
    return way_to_hosts(session).attach(machine, [PROGRAM, *flags, *words], terminal=terminal)


def run_where_it_is(session: Session, node: str, engine: str | None, words: Sequence[str]) -> int | None:
    """Run a command of gpuprov on the host that has a node; None where this machine has it, or no hosts were added."""
    machine = host_of_node(session, node, engine)
    return None if machine is None else run_on_host(session, machine, words)


def nodes_here(session: Session, names: Sequence[str]) -> set[str]:
    """Those of the nodes that this machine has."""
    from gpuprov.host.survey import survey

    doors = [door for door in session.host.engines if door.installed()]
    seen = survey(doors, lambda driver: {name for name in names if driver.find_node(name) is not None})
    return {name for found in seen.answers.values() for name in found}
