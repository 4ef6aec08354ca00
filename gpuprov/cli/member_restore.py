"""`gpuprov member-restore`: what systemd starts at boot and with the engine; not for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import show_outcome
from gpuprov.shapes.choices import ENGINES

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command(hidden=True)
@click.option("--engine", type=click.Choice(ENGINES), required=True, help="Whose networks.")
@click.pass_obj
def command(session: Session, engine: str) -> None:
    """Restore isolation and overlays of an engine's networks; a second run changes nothing. Needs root."""
    from gpuprov.lifecycle.restore_host import restore_host

    show_outcome(session, restore_host(engine, session.host, reporter=session.reporter))
