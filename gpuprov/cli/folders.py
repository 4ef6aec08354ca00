"""Folders and files that grids and programs are made of, on the command line."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable


def folder_argument(name: str, metavar: str = "PROJECT") -> Callable[[Any], Any]:
    """The folder of a project, as it was typed; a shell completes it."""
    return click.argument(name, metavar=metavar, type=click.Path())


def get_folder(text: str) -> Path:
    """The absolute path of a project's folder.

    Raises:
        UsageError: There is no such folder.
    """
    return _get(text, Path.is_dir, "the folder of a project", "it is a file")


def get_file(text: str) -> Path:
    """The absolute path of a file with data.

    Raises:
        UsageError: There is no such file.
    """
    return _get(text, Path.is_file, "a file with data", "it is not a regular file")


def _get(text: str, fits: Callable[[Path], bool], what: str, else_why: str) -> Path:
    try:
        path = Path(text).resolve()
        if fits(path):
            return path
        why = else_why if path.exists() else "it does not exist"
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in it; links in a circle
        why = str(error)
    raise UsageError(f"{excerpt(text)!r} is not {what}", evidence=why, fix=f"ls -ld {shlex.quote(excerpt(text, 200))}")
