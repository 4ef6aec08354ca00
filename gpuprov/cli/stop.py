"""`gpuprov stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import change_nodes, engine_option
from gpuprov.cli.job_options import job_options
from gpuprov.cli.parameters import nodes_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.planes.leaving import JobsPolicy


@click.command()
@nodes_argument()
@job_options
@engine_option
@click.pass_obj
def command(session: Session, nodes: tuple[str, ...], engine: str | None, policy: JobsPolicy) -> None:
    """Stop nodes, such as c000 or c[000-003]. Refused while jobs run there."""
    from gpuprov.workflows.start_stop import stop_nodes

    change_nodes(
        session,
        engine,
        nodes,
        lambda driver, host: stop_nodes(driver, nodes, host, reporter=session.reporter, policy=policy),
    )
