"""`gpuprov snapshot`."""

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
    """Take a snapshot of a node's state.

    Docker and pools without copy-on-write pause the node during the snapshot: there it is refused while jobs run.
    """
    from gpuprov.stories.change_nodes import NodesChange
    from gpuprov.workflows.start_stop import snapshot

    status = change_there(session, engine, [node], NodesChange(verb="snapshot", policy=policy, label=label))
    if status is not None:
        return status
    change_nodes(
        session,
        engine,
        [node],
        lambda driver, host: snapshot(driver, node, label, host, reporter=session.reporter, policy=policy),
    )
    return 0
