"""`gpuprov host add`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import host_engine_option

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.shapes.choices import Engine


@click.command()
@click.argument("name")
@click.option("--address", help="Its address, or an alias of ~/.ssh/config.  [default: NAME]")
@click.option("--user", help="The user who logs in; must be root there.  [default: as ssh does]")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of its sshd.  [default: as ssh does]")
@click.option("--identity-file", metavar="FILE", help="The private key to log in with.  [default: as ssh does]")
@click.option("--proxy-jump", metavar="HOST", help="A machine to go through.  [default: as ssh does]")
@host_engine_option
@click.pass_obj
def command(session: Session, /, *, name: str, engine: Engine | None, **way: str | int | None) -> None:
    """Add a host that ssh reaches: check it, install this gpuprov there, prepare an engine, and remember it.

    A second run changes nothing, or brings gpuprov there up to date. For a host that is known, options that are left
    out are as they were. A host key that nobody has seen is accepted and shown; one that has changed is refused.
    """
    from gpuprov.cli.engine import show_outcome
    from gpuprov.link.hosts_file import resolve_machine
    from gpuprov.link.places import ensure_places
    from gpuprov.stories.hosts import AddOrder, add_host

    places = ensure_places()
    order = AddOrder(machine=resolve_machine(places.inventory, name, **way), engine=engine or "")
    show_outcome(session, add_host(order, places, reporter=session.reporter))
