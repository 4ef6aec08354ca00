"""`gpuprov host show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.cli.tables import Screen
    from gpuprov.link.address import RemoteMachine
    from gpuprov.shapes.engine import EngineCluster
    from gpuprov.shapes.host import Host


@click.command()
@click.argument("name")
@click.pass_obj
def command(session: Session, name: str) -> None:
    """Show a host: its engines, nodes, GPUs and their holders, room and kernel limits. Changes nothing."""
    from gpuprov.link.answers import read_answer
    from gpuprov.link.hosts_file import get_machine
    from gpuprov.link.places import ensure_places
    from gpuprov.shapes.host import Host
    from gpuprov.stories.hosts import ask_host

    places = ensure_places()
    machine = get_machine(places.inventory, name)
    look = read_answer(Host, ask_host(machine, places), name)
    session.show(look, _render(machine, look, screen=session.screen))


def _render(machine: RemoteMachine, look: Host, *, screen: Screen) -> str:
    from gpuprov.cli.gpu_table import render_board
    from gpuprov.cli.node_table import render_nodes
    from gpuprov.cluster.told_gpus import board_of
    from gpuprov.core.units import GIB

    engines = [
        f"{name} {facts.version} on {facts.storage}{_describe_cluster(facts.cluster)}"
        for name, facts in look.facts.items()
    ]
    engines += [f"{name} does not respond: {error.what}" for name, error in look.silent.items()]
    limits = [f"{check} {'unknown' if limit is None else limit}" for check, limit in look.limits.items()]
    lines = [
        f"host: {machine.name} ({machine.destination})",
        f"machine: {look.machine}, Linux {look.kernel}",
        f"disk: {look.disk_free_bytes / GIB:.1f} GiB free",
        f"limits: {', '.join(limits)}",
        *(f"engine: {engine}" for engine in engines or ["none"]),
        "",
        render_nodes(look.nodes, screen=screen) if look.nodes else "no nodes",
        "",
    ]
    if look.gpus:
        lines.append(render_board(board_of(look.gpus), screen=screen))
    elif look.gpu_error:
        lines.append(f"the GPUs cannot be determined: {look.gpu_error.what}: {look.gpu_error.evidence}")
    return "\n".join(lines)


def _describe_cluster(cluster: EngineCluster | None) -> str:
    """What to add to a line about an engine; nothing where it is in no cluster of its own."""
    if cluster is None:
        return ""
    away = f"; away: {', '.join(cluster.away)}" if cluster.away else ""
    return f", member {cluster.member} of a cluster of {', '.join(cluster.members)}{away}"
