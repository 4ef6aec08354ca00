"""`gpuprov list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option, open_engines
from gpuprov.cli.tables import render_table

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.option("--all", "everything", is_flag=True, help="Instances that gpuprov did not make, too.")
@engine_option
@click.pass_obj
def command(session: Session, everything: bool, engine: str | None) -> None:  # noqa: FBT001 - click's signature
    """List the nodes of every cluster, on every engine."""
    from gpuprov.documents.nodes import nodes_document
    from gpuprov.planes.rows import list_rows

    rows = [row for driver in open_engines(session, engine) for row in list_rows(driver, everything=everything)]
    cells = [
        (row.name, row.cluster, row.engine, row.role, row.status, row.address, row.private_address, len(row.gpus))
        for row in rows
    ]
    headers = ("NODE", "CLUSTER", "ENGINE", "ROLE", "STATUS", "ADDRESS", "PRIVATE", "GPUS")
    text = (
        render_table(headers, cells, colour=session.colour)
        if rows
        else "no nodes; make some with: gpuprov cluster up -n 4"
    )
    session.show(nodes_document(rows, host=session.host), text)
