"""`gpuprov example lab`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import show_outcome

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.pass_context
def command(context: click.Context, folder: Path | None) -> None:
    """Write an inventory of lab hosts, its variables and a playbook into FOLDER, by default named after the example.

    FOLDER is created; if it exists, it must be empty. Its README describes how to set up the hosts over ssh with
    `gpuprov play`.
    """
    from gpuprov.stories.example import write_lab

    session: Session = context.obj
    show_outcome(session, write_lab(folder or Path(str(context.info_name))))
