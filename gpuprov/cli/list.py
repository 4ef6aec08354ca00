"""`gpuprov list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option
from gpuprov.cli.show_result import show_result
from gpuprov.cli.tables import render_table

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.shapes.nodes import NodeRow


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include instances that gpuprov did not create.")
@engine_option
@click.pass_obj
def command(session: Session, everything: bool, engine: str | None) -> int:  # noqa: FBT001 - click's signature
    """List the nodes of all clusters on all engines."""
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.drivers.base import ROLE_BUILDER
    from gpuprov.fleet.questions.nodes import NODES
    from gpuprov.shapes.nodes import Nodes
    from gpuprov.shapes.orders import ListOrder

    fleet = open_fleet(session, engine)
    told = fleet.ask(NODES, ListOrder(everything=everything, engine=engine or ""))
    told.require_answer()
    rows = [row for nodes in told.answers.values() for row in nodes.nodes]
    with_host = bool(fleet.others)
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
    headers = (
        "NODE",
        *(("HOST",) if with_host else ()),
        "CLUSTER",
        "ENGINE",
        "ROLE",
        "STATUS",
        "ADDRESS",
        "PRIVATE",
        "GPUS",
    )
    text = (
        render_table(headers, cells, screen=session.screen)
        if rows
        else "no nodes; create some: gpuprov cluster up -n 4"
    )
    document = Nodes(host=session.host.name, nodes=tuple(rows))
    return show_result(session, document, text, told.error, 0)


def _cluster(row: NodeRow) -> str:
    """A copy of a node is in none; what it is stands in its health."""
    return f"({row.health.partition(';')[0]})" if row.health.startswith("a copy of") else row.cluster
