"""`gpuprov list`."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import click

from gpuprov.cli import spanning
from gpuprov.cli.engine import ask_engines, engine_option
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
    from gpuprov.drivers.base import ROLE_BUILDER
    from gpuprov.planes.across.rows import list_rows
    from gpuprov.shapes.nodes import Nodes

    others = spanning.list_nodes(session, everything=everything) if engine is None else None
    rows: list[NodeRow] = []
    if others is None or any(door.installed() for door in session.host.engines):
        rows += chain.from_iterable(ask_engines(session, engine, partial(list_rows, everything=everything)))
    rows += others.rows if others else ()
    with_host = others is not None
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
        render_table(headers, cells, colour=session.colour)
        if rows
        else "no nodes; create some: gpuprov cluster up -n 4"
    )
    error = others.error if others else None
    return spanning.show_result(session, Nodes(host=session.host.name, nodes=tuple(rows)), text, error, 0)


def _cluster(row: NodeRow) -> str:
    """A copy of a node is in none; what it is stands in its health."""
    return f"({row.health.partition(';')[0]})" if row.health.startswith("a copy of") else row.cluster
