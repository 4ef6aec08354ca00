"""`gpuprov cp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from gpuprov.cli.engine import engine_option, show_outcome
from gpuprov.cli.parameters import complete_nodes

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


def complete_place(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Node names, each with its colon, or else files of this host; nobody knows what is in a node."""
    if ":" in incomplete:
        return []
    names = [] if "/" in incomplete or incomplete.startswith(".") else complete_nodes(context, parameter, incomplete)
    return [CompletionItem(f"{name}:") for name in names] or [CompletionItem(incomplete, type="file")]


@click.command()
@click.argument("source", shell_complete=complete_place)
@click.argument("target", shell_complete=complete_place)
@engine_option
@click.pass_obj
def command(session: Session, source: str, target: str, engine: str | None) -> None:
    """Copy a file or folder between this host and a running node.

    The node's end is NODE:PATH. A path in a node that does not begin with a slash is below /root.

    Into a node: gpuprov cp results.csv c000:/tmp/

    From a node: gpuprov cp c000:/var/log/slurm ./logs

    If TARGET is a folder, the copy is put into it. A file replaces a file; nothing else is replaced.
    """
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.cluster.copy_ends import parse_end, refuse_same_side
    from gpuprov.fleet.where import reach_node
    from gpuprov.stories.copy_files import copy_files

    ends = parse_end(source), parse_end(target)
    refuse_same_side(*ends)
    node = ends[0].node or ends[1].node or ""
    driver = reach_node(open_fleet(session, engine), node)
    show_outcome(session, copy_files(driver, *ends, reporter=session.reporter))
