"""`gpuprov restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option, open_engine_of_nodes, show_outcome
from gpuprov.cli.parameters import node_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@node_argument()
@node_argument("label", new=True)
@engine_option
@click.pass_obj
def command(session: Session, node: str, label: str, engine: str | None) -> None:
    """Restore a node to a snapshot; later changes are lost."""
    from gpuprov.workflows.snapshots import restore

    show_outcome(
        session,
        restore(open_engine_of_nodes(session.host, engine, node), node, label, session.host, reporter=session.reporter),
    )
