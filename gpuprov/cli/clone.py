"""`gpuprov clone`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from gpuprov.cli.engine import engine_option, gpu_mode_option, show_outcome
from gpuprov.cli.parameters import node_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.shapes.choices import GpuMode


@click.command()
@node_argument("source")
@node_argument("name", new=True)
@click.option("--addr", metavar="ADDRESS", help="Address on the NAT bridge.  [default: derived from the node's number]")
@gpu_mode_option
@engine_option
@click.pass_obj
def command(
    session: Session, source: str, name: str, addr: str | None, gpu_mode: str | None, engine: str | None
) -> int:
    """Copy a stopped node, on its host. The copy gets an address, a host key and a GPU lease of its own."""
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.lifecycle.create_node import CloneOrder
    from gpuprov.stories.create_node import clone_node

    order = CloneOrder(source=source, name=name, address=addr, gpu_mode=cast("GpuMode", gpu_mode or "auto"))
    done = clone_node(open_fleet(session, engine), order)
    return show_outcome(session, done.outcome, done.error)
