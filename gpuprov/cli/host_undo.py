"""`gpuprov host undo`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_for_new, host_engine_option, show_outcome

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.shapes.choices import Engine


@click.command()
@host_engine_option
@click.pass_obj
def command(session: Session, engine: Engine | None) -> None:
    """Revert what `host prepare` created, and nothing else; packages are kept. Needs root."""
    from gpuprov.assets import get_asset
    from gpuprov.lifecycle.prepare_host import HostOrder, undo_host, variables_for

    chosen = engine or engine_for_new(session.host)
    order = HostOrder(roles_path=get_asset("roles"), engine=chosen, variables=variables_for(chosen, os.environ))
    show_outcome(session, undo_host(order, session.host, reporter=session.reporter))
