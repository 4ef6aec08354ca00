"""`gpuprov host prepare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import show_outcome

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.option(
    "--pool-size", type=click.IntRange(min=5), default=30, show_default=True, metavar="GIB", help="Size of a new pool."
)
@click.pass_obj
def command(session: Session, pool_size: int) -> None:
    """Make this machine ready to hold nodes; a second run changes nothing. Needs root.

    Installs and starts LXD where it is absent, and makes a btrfs pool where there is no storage with copy on write.
    """
    from gpuprov.assets import find_asset
    from gpuprov.workflows.prepare_host import HostRequest, prepare_host

    request = HostRequest(roles_path=find_asset("roles"), pool_size_gib=pool_size)
    show_outcome(session, prepare_host(request, reporter=session.reporter))
