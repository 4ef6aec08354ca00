"""What there is: list, cluster list, cluster status, and the table of nodes, which other verbs show too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import cluster_argument, engine_option
from gpuprov.cli.tables import PIPE, render_table
from gpuprov.core.names import fold, name_cluster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.shapes.verify import Report


@command(
    click.option("--all", "everything", is_flag=True, help="Include instances that gpuprov did not create."),
    engine_option,
)
def list_nodes(session: Session, *, everything: bool) -> Result:
    """List the nodes of all clusters on all engines."""
    from gpuprov.drivers.base import ROLE_BUILDER
    from gpuprov.fleet.questions.nodes import NODES
    from gpuprov.shapes.nodes import Nodes
    from gpuprov.shapes.orders import ListOrder

    fleet = session.fleet
    told = fleet.ask(NODES, ListOrder(everything=everything, engine=session.engine or ""))
    told.require_answer()
    rows = [row for nodes in told.answers.values() for row in nodes.nodes]
    with_host = bool(fleet.known)
    cells = [
        (
            *(row.name, *((row.host,) if with_host else ()), _cluster(row), row.engine, row.role, row.status),
            *(row.address, row.private_address, len(row.gpus)),
        )
        for row in rows
    ]
    for row in rows:
        if row.role == ROLE_BUILDER:
            session.reporter.note(f"{row.name} in {row.engine} is {row.health}")
    host = ("HOST",) if with_host else ()
    headers = ("NODE", *host, "CLUSTER", "ENGINE", "ROLE", "STATUS", "ADDRESS", "PRIVATE", "GPUS")
    text = render_table(headers, cells, screen=session.screen, spare=("PRIVATE", "ENGINE", "ROLE"))
    document = Nodes(host=session.host.name, nodes=tuple(rows))
    nothing = _none(session, "no nodes; create some: gpuprov cluster up -n 4")
    return Result(document=document, text=text if rows else nothing, error=told.error)


def _none(session: Session, text: str) -> str:
    """An engine or a host that does not answer, of which the user was warned, may have some."""
    return f"{text.partition(';')[0]} where there is an answer" if session.reporter.warned else text


def _cluster(row: NodeRow) -> str:
    """A copy of a node is in none; what it is stands in its health."""
    return f"({row.health.partition(';')[0]})" if row.health.startswith("a copy of") else row.cluster


@command(engine_option)
def list_clusters(session: Session) -> Result:
    """List the clusters on all engines, and on the hosts that were added. Changes nothing."""
    from gpuprov.fleet.clusters import ask_clusters
    from gpuprov.shapes.nodes import Clusters

    clusters, told = ask_clusters(session.fleet)
    told.require_answer()
    rows = [
        (
            *(one.name, ", ".join(one.hosts), ", ".join(one.engines), ", ".join(one.roles), one.nodes, one.running),
            f"{one.gpus} SIMULATED" if one.simulated else one.gpus,
        )
        for one in clusters
    ]
    headers = ("CLUSTER", "HOSTS", "ENGINE", "ROLES", "NODES", "RUNNING", "GPUS")
    text = render_table(headers, rows, screen=session.screen, spare=("ENGINE", "ROLES"))
    document = Clusters(host=session.host.name, clusters=clusters)
    nothing = _none(session, "no clusters; create one: gpuprov cluster up -n 4")
    return Result(document=document, text=text if rows else nothing, error=told.error)


@command(cluster_argument, engine_option)
def status(session: Session) -> Result:
    """Show a cluster's nodes: address, GPU, sharing, role, state and health."""
    from msgspec import UNSET

    from gpuprov.fleet.clusters import explain_missing
    from gpuprov.fleet.host_statuses import host_statuses
    from gpuprov.fleet.lost_service import tell_lost_service
    from gpuprov.link.several import part_error
    from gpuprov.shapes.nodes import ClusterStatus
    from gpuprov.spec.shared_folder import SHARED
    from gpuprov.stories.status import look_at_cluster

    seen = look_at_cluster(session.fleet, session.cluster)
    for host, part in seen.parts.items():
        place = f"{host}: " if seen.spans else ""
        for line in part.copies:
            session.reporter.note(f"{place}{line}")
        for line in part.full_disks:
            session.reporter.warn(f"{place}{line}")
    rows, folder = seen.rows, seen.shared_folder
    document = ClusterStatus(
        host=session.host.name,
        cluster=session.cluster,
        shared_folder=folder or None,
        nodes=rows,
        hosts=host_statuses(seen.machines, seen.failed, seen.away) if seen.spans else UNSET,
    )
    if not rows and seen.spec is None and not seen.failed:
        missing = explain_missing(session.fleet, session.cluster, verb="gpuprov cluster status")
        return Result(document=document, text="", error=missing)
    none = name_cluster("create them: gpuprov cluster up -n 4", session.cluster)
    text = (
        f"{render_nodes(rows, screen=session.screen, spans=seen.spans)}\n\n"
        f"{render_limits([row for row in rows if row.host not in seen.failed])}"
        if rows
        else f"cluster {session.cluster} has no nodes; {none}"
    )
    whose = "all hosts" if seen.spans else "the host"
    text += f"\nshared folder: {folder} of {whose}, {SHARED} in the nodes" if folder else ""
    error = part_error(seen.failed, of=len(seen.machines), besides=tell_lost_service(seen) if seen.spans else "")
    return Result(document=document, text=text, error=error)


def render_nodes(
    rows: Sequence[NodeRow], *, screen: Screen = PIPE, spans: bool = False, report: Report | None = None
) -> str:
    """One line for each node; a simulated GPU says so in its own cell.

    Args:
        rows: The nodes.
        screen: Where it is shown.
        spans: Whether each line has the node's host in it.
        report: What `verify` has found: its verdicts stand in place of the health of nodes if all are healthy.
    """
    from gpuprov.roles.registry import role_of, roles_of
    from gpuprov.shapes.cluster_spec import NodesSpec

    verdicts = {node.node: node.verdict for node in report.nodes} if report else {}
    told: dict[str, list[object]] = {"VERDICT": [verdicts.get(row.name) for row in rows]} if report else {}
    if not report or any(row.health != "ok" for row in rows):
        told["HEALTH"] = [row.health for row in rows]
    roles = roles_of(row.role for row in rows if row.work) or (role_of(NodesSpec().role),)
    work = "/".join(role.title.upper() for role in roles)
    return render_table(
        (
            "NODE",
            *(("HOST",) if spans else ()),
            "STATUS",
            "ADDRESS",
            "PRIVATE",
            "GPU",
            "SHARING",
            "ROLE",
            work,
            *told,
        ),
        [
            (
                row.name,
                *((row.host,) if spans else ()),
                row.status,
                row.address,
                row.private_address,
                _gpus(row),
                row.sharing,
                row.role,
                row.work,
                *last,
            )
            for row, *last in zip(rows, *told.values(), strict=True)
        ],
        screen=screen,
        spare=("SHARING", "PRIVATE", "ROLE", "ADDRESS"),
    )


def render_limits(rows: Sequence[NodeRow]) -> str:
    """What nodes may use of their hosts: a line for those that have the same limits."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        alike.setdefault(row.limits.words, []).append(row.name)
    return "\n".join(f"limits of {fold(names)}: {words}" for words, names in alike.items())


def _gpus(row: NodeRow) -> str:
    names = ",".join(path.removeprefix("/dev/") for path in row.devices)
    return f"{names} SIMULATED" if names and row.simulated else names
