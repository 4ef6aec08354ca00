"""`gpuprov program rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.open_fleet import open_desk

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.argument("program", metavar="HASH")
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, program: str, cluster: str, engine: str | None) -> None:
    """Remove a registered program, named by its hash or the first 6 characters or more, and what was built from it."""
    from gpuprov.shapes.programs import ProgramList
    from gpuprov.stories.programs import remove_program

    row = remove_program(open_desk(session, engine, cluster), cluster, program)
    document = ProgramList(host=session.host.name, cluster=cluster, programs=(row,))
    session.show(document, f"removed: {row.name} {row.version}, {row.hash}")
