"""`gpuprov completion`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.shapes.explain import Shell


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_obj
def command(session: Session, shell: Shell) -> None:
    """Print the shell completion script for commands, options, node names and ids of jobs.

    For bash, for all sessions: gpuprov completion bash > /etc/bash_completion.d/gpuprov
    """
    from gpuprov.cli.root import root
    from gpuprov.shapes.explain import Completion

    kind = get_completion_class(shell)
    if kind is None:  # click.Choice lets only shells through that click knows
        raise click.UsageError(f"no completion for {shell}")
    script = kind(root(), {}, "gpuprov", "_GPUPROV_COMPLETE").source()
    session.show(Completion(shell=shell, script=script), script)
