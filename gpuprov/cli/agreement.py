"""What is lost for good is agreed to: on a terminal by typing the cluster's name, elsewhere by `--yes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.session import tell
from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session


def require_agreement(
    session: Session, cluster: str, would: str, losses: Sequence[str], *, kept: str, fix: str
) -> None:
    """Say what would be lost, and go on only if the cluster's name is typed.

    Args:
        session: Where it is asked.
        cluster: The name to type.
        would: What is about to be done, in a sentence.
        losses: What goes with it, one line for each.
        kept: What is said where something else is typed.
        fix: What to type where nobody can be asked.

    Raises:
        UsageError: There is no terminal, or something else was typed; nothing was changed.
    """
    if not session.interactive:
        raise UsageError(would, evidence="\n".join((*losses, "there is no terminal on which to ask")), fix=fix)
    tell("\n".join((f"{would}:", *(f"  {line}" for line in losses), "")))
    typed = click.prompt(f"To go on, type {cluster}", default="", show_default=False, err=True)
    if typed.strip() != cluster:
        raise UsageError(
            kept, evidence=f"{typed!r} was typed, not {cluster}", fix=f"type {cluster} when asked; or {fix}"
        )
