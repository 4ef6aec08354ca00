"""`--role`: the roles' registry says which there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuprov.roles.registry import ROLE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable


def role_option(text: str, *, default: str | None = None) -> Callable[[Any], Any]:
    """What nodes are for."""
    return click.option(
        "--role", type=click.Choice(ROLE_NAMES), default=default, show_default=default is not None, help=text
    )
