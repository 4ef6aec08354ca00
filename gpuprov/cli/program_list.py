"""`gpuprov program list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import cluster_option, engine_option
from gpuprov.cli.open_fleet import open_desk
from gpuprov.cli.tables import PIPE, render_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.programs import ListedProgram

_HEADERS = ("HASH", "NAME", "VERSION", "REGISTERED", "BUILT FOR")
_SHORT = 12  # characters of a hash that tell it from others in a table


@click.command()
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, cluster: str, engine: str | None) -> None:
    """List the programs that are registered in a cluster, and the kinds of GPU for which they are built."""
    from gpuprov.shapes.programs import ProgramList
    from gpuprov.workflows.programs import list_programs

    programs = list_programs(open_desk(session, engine, cluster), cluster)
    document = ProgramList(host=session.host.name, cluster=cluster, programs=programs)
    session.show(document, render_programs(programs, screen=session.screen))


def render_programs(programs: Sequence[ListedProgram], *, screen: Screen = PIPE) -> str:
    """A line for each program."""
    rows = [
        (one.hash[:_SHORT], one.name, one.version, one.registered, ",".join(one.built_for) or "-") for one in programs
    ]
    return render_table(_HEADERS, rows, screen=screen) if rows else "no programs"
