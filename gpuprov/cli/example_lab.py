"""`gpuprov example lab`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import show_outcome

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("lab"))
@click.pass_obj
def command(session: Session, folder: Path) -> None:
    """Write an inventory of lab hosts, its variables and a playbook into FOLDER, default `lab`.

    FOLDER is created, or is empty. Its README says how to set the hosts up over ssh with `gpuprov play`.
    """
    from gpuprov.workflows.write_example import write_lab

    show_outcome(session, write_lab(folder))
