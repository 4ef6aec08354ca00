"""`gpuprov restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import change_nodes, engine_option
from gpuprov.cli.job_options import job_options
from gpuprov.cli.nodes_there import change_there
from gpuprov.cli.parameters import node_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.planes.across.leaving import JobsPolicy


@click.command()
@node_argument()
@node_argument("label", new=True)
@job_options
@engine_option
@click.pass_obj
def command(session: Session, node: str, label: str, engine: str | None, policy: JobsPolicy) -> int:
    """Restore a node to a snapshot; later changes are lost. Refused while jobs run there."""
    from gpuprov.stories.change_nodes import NodesChange
    from gpuprov.workflows.start_stop import restore

    status = change_there(session, engine, [node], NodesChange(verb="restore", policy=policy, label=label))
    if status is not None:
        return status
    change_nodes(
        session,
        engine,
        [node],
        lambda driver, host: restore(driver, node, label, host, reporter=session.reporter, policy=policy),
    )
    return 0
