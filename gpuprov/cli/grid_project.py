"""The project of a grid on the command line."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable


def project_argument() -> Callable[[Any], Any]:
    """The folder of a project, as it was typed; a shell completes it."""
    return click.argument("project", metavar="PROJECT", type=click.Path())


def get_project(text: str) -> Path:
    """The absolute path of a project's folder.

    Raises:
        UsageError: There is no such folder.
    """
    try:
        folder = Path(text).resolve()
        if folder.is_dir():
            return folder
        why = "it is a file" if folder.exists() else "it does not exist"
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in it; links in a circle
        why = str(error)
    raise UsageError(
        f"{excerpt(text)!r} is not the folder of a project",
        evidence=why,
        fix=f"ls -ld {shlex.quote(excerpt(text, 200))}",
    )
