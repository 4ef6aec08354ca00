"""`gpuprov host prepare`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import host_engine_option, show_outcome

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.spec.models import Engine


@click.command()
@host_engine_option
@click.option(
    "--pool-size",
    type=click.IntRange(min=5),
    default=30,
    show_default=True,
    metavar="GIB",
    help="Size of a new pool of LXD's.",
)
@click.pass_obj
def command(session: Session, engine: Engine, pool_size: int) -> None:
    """Make this machine ready to hold nodes; a second run changes nothing. Needs root.

    Installs and starts the engine where it is absent, and makes LXD a btrfs pool where it has no storage with copy on
    write. LXD and Docker live side by side: prepare the machine for each in turn, in any order.
    """
    from gpuprov.assets import find_asset
    from gpuprov.workflows.prepare_host import HostRequest, prepare_host, variables_for

    request = HostRequest(
        roles_path=find_asset("roles"),
        engine=engine,
        pool_size_gib=pool_size,
        variables=variables_for(engine, os.environ),
    )
    show_outcome(session, prepare_host(request, reporter=session.reporter))
