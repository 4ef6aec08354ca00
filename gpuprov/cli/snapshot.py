"""`gpuprov snapshot`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import change_nodes, engine_option
from gpuprov.cli.parameters import node_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@node_argument()
@node_argument("label", new=True)
@engine_option
@click.pass_obj
def command(session: Session, node: str, label: str, engine: str | None) -> None:
    """Take a snapshot of a node's state."""
    from gpuprov.workflows.snapshots import snapshot

    change_nodes(
        session, engine, [node], lambda driver, host: snapshot(driver, node, label, host, reporter=session.reporter)
    )
