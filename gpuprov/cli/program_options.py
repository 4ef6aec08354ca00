"""The data and the settings of a CUDA program on the command line."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable

data_option: Callable[[Any], Any] = click.option(
    "--data", metavar="FILE", help="CSV file of numbers, with or without a line of names."
)


def _check(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        name, equals, _ = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(
                f"--set {excerpt(text)!r} is not NAME=VALUE",
                evidence="NAME is a setting of the program",
                fix="--set max_iterations=10",
            )
    return texts


setting_option: Callable[[Any], Any] = click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", callback=_check, help="A setting; repeatable."
)


def check_data(text: str | None) -> Path | None:
    """The absolute path of a file; None for none.

    Raises:
        UsageError: There is no such file.
    """
    if text is None:
        return None
    try:
        path = Path(text).resolve()
        if path.is_file():
            return path
        why = "it is not a regular file" if path.exists() else "it does not exist"
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in it; links in a circle
        why = str(error)
    raise UsageError(
        f"{excerpt(text)!r} is not a file with data", evidence=why, fix=f"ls -ld {shlex.quote(excerpt(text, 200))}"
    )
