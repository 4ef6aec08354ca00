"""`gpuprov example`: lab, program."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.command import command

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome


def _folder(default: str) -> Callable[[Any], Any]:
    return click.argument("folder", type=click.Path(path_type=Path), default=Path(default))


@command(_folder("lab"))
def lab(_session: Session, folder: Path) -> Outcome:
    """Write an inventory of lab hosts, its variables and a playbook into FOLDER, by default named after the example.

    FOLDER is created; if it exists, it must be empty. Its README describes how to set up the hosts over ssh with
    `gpuprov play`.
    """
    from gpuprov.stories.example import write_lab

    return write_lab(folder)


@command(_folder("program"))
def program(session: Session, folder: Path) -> Outcome:
    """Write a CUDA program that sums a column of a table into FOLDER, by default named after the example.

    FOLDER is created; if it exists, it must be empty. Its README has the commands that check and run it.
    """
    from gpuprov.stories.example import write_program

    outcome = write_program(folder)
    where = shlex.quote(str(folder))
    session.reporter.note(f"next: gpuprov program run {where} --data {where}/data.csv --set column=1 --local")
    return outcome
