"""`gpuprov image rm`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option, open_engine_of_image, show_outcome

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.argument("name")
@engine_option
@click.pass_obj
def command(session: Session, name: str, engine: str | None) -> None:
    """Remove a node image, by name or by the first digits of its fingerprint. Nodes created from it are kept."""
    from gpuprov.workflows.standalone_image import remove_image

    show_outcome(
        session,
        remove_image(open_engine_of_image(session.host, engine, name), name, session.host, reporter=session.reporter),
    )
