"""`gpuprov program check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.grid_project import get_project
from gpuprov.cli.program_options import check_data, data_option, setting_option

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.argument("program", metavar="DIR", type=click.Path())
@data_option
@setting_option
@click.pass_obj
def command(session: Session, program: str, data: str | None, settings: tuple[str, ...]) -> None:
    """List all faults of the program in DIR, and of its data; changes nothing.

    Compares its header with its Python structures, and compiles it, with the compilers of this host. Prints its hash.
    """
    from gpuprov.project.program_check import check_program
    from gpuprov.shapes.programs import ProgramCheck
    from gpuprov.spec.program_order import ProgramOrder

    order = ProgramOrder(program=get_project(program), data=check_data(data), settings=settings)
    checked, sound = check_program(order)
    for words in checked.left_out:
        session.reporter.warn(f"not checked on this host: {words}")
    document = ProgramCheck(
        host=session.host.name, hash=sound.hash, name=sound.name, program_version=sound.version,
        files=checked.files, rows=checked.table.rows if checked.table else None, left_out=checked.left_out,
    )  # fmt: skip
    session.show(document, sound.hash)
