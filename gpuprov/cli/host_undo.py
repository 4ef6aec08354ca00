"""`gpuprov host undo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import show_outcome

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.pass_obj
def command(session: Session) -> None:
    """Take back what `host prepare` made, and nothing that it found; packages stay. Needs root."""
    from gpuprov.assets import find_asset
    from gpuprov.workflows.prepare_host import HostRequest, undo_host

    show_outcome(session, undo_host(HostRequest(roles_path=find_asset("roles")), reporter=session.reporter))
