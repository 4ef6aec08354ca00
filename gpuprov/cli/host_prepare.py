"""`gpuprov host prepare`."""

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
@click.option(
    "--pool-size",
    type=click.IntRange(min=5),
    default=None,
    metavar="GIB",
    help="Create a storage pool of this size for LXD or Incus, unless one with copy-on-write exists.  [default: what "
    "the disk allows, if there is no pool]",
)
@click.option(
    "--refresh",
    is_flag=True,
    help="Also make anew what images are built from, and look for security updates of those that exist.",
)
@click.pass_obj
def command(session: Session, engine: Engine | None, pool_size: int | None, *, refresh: bool) -> None:
    """Prepare this machine for nodes; a second run changes nothing. Needs root.

    Installs and starts the engine if it is missing, and creates a btrfs pool for LXD or Incus if it has no storage.
    LXD, Incus and Docker can be used side by side: prepare the machine for each, in any order. On a fresh
    machine, it also builds the base of the first image.
    """
    from gpuprov.assets import get_asset
    from gpuprov.lifecycle.prepare_host import HostOrder, own_program, prepare_host, variables_for

    chosen = engine or engine_for_new(session.host)
    order = HostOrder(
        roles_path=get_asset("roles"),
        engine=chosen,
        pool_size_gib=pool_size,
        variables=variables_for(chosen, os.environ),
        first_image=True,
        program=own_program(),
        refresh=refresh,
    )
    show_outcome(session, prepare_host(order, session.host, reporter=session.reporter))
