"""`gpuprov cluster down`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.agreement import require_agreement
from gpuprov.cli.command import command
from gpuprov.cli.engine import cluster_argument, engine_option
from gpuprov.cli.job_options import job_options

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.fleet.done import Done
    from gpuprov.planes.across.leaving import JobsPolicy
    from gpuprov.workflows.cluster_down import DownLosses


@command(
    cluster_argument,
    job_options,
    click.option("--purge", is_flag=True, help="Also remove the folder that the nodes shared, with all its contents."),
    click.option("--yes", is_flag=True, help="Do not ask. Jobs still need --drain or --force."),
    engine_option,
)
def down(session: Session, policy: JobsPolicy, *, purge: bool, yes: bool) -> Done:
    """Remove a cluster: its nodes and their data, its networks, NAT rules and keys. Images are kept.

    On a terminal, it says what will be lost and asks for the cluster's name. Elsewhere, it needs --yes. Refused while
    jobs run or wait.
    """
    from gpuprov.stories.cluster_down import take_down

    name = session.cluster
    options = f"{f' --engine {session.engine}' if session.engine else ''}{' --purge' if purge else ''}"
    again = f"gpuprov cluster down {name}{options} --yes"

    def agree(losses: DownLosses) -> None:
        if losses.busy and session.interactive:
            raise losses.busy
        more = ", with --drain to wait for the jobs, or with --force to end them" if losses.busy else ""
        if losses.lines:
            require_agreement(
                session,
                name,
                f"the cluster {name} would be removed",
                losses.lines,
                kept=f"the cluster {name} is kept",
                fix=f"{again}{more}",
            )

    return take_down(
        session.fleet,
        name,
        policy,
        purge=purge,
        agree=None if yes else agree,
        look_inside=session.interactive,
    )
