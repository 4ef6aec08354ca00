"""`gpuprov host remove`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.argument("name")
@click.option("--forget", is_flag=True, help="Leave the host as it is, with its nodes, even if it is unreachable.")
@click.pass_obj
def command(session: Session, name: str, *, forget: bool) -> None:
    """Remove gpuprov from a host that has no nodes, and forget the host. Its engine and images stay."""
    from gpuprov.cli.engine import show_outcome
    from gpuprov.link.places import ensure_places
    from gpuprov.stories.hosts import remove_host

    show_outcome(session, remove_host(name, ensure_places(), forget=forget, reporter=session.reporter))
