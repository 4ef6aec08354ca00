"""`gpuprov anneal check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.anneal_files import files_options, read_files

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@files_options
@click.pass_obj
def command(session: Session, /, **given: Any) -> None:  # noqa: ANN401 - what click hands over, by name
    """Report all faults of models and configurations, each with its line. Nothing of a model is executed."""
    from gpuprov.project.anneal_check import check_anneal
    from gpuprov.shapes.anneal import AnnealChecked

    check_anneal(read_files(given))
    session.show(AnnealChecked(host=session.host.name), "no faults")
