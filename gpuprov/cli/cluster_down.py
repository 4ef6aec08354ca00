"""`gpuprov cluster down`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli import spanning
from gpuprov.cli.agreement import require_agreement
from gpuprov.cli.engine import change_cluster, cluster_argument, engine_option
from gpuprov.cli.job_options import job_options

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.planes.across.leaving import JobsPolicy


@click.command()
@cluster_argument
@job_options
@click.option("--purge", is_flag=True, help="Also remove the folder that the nodes shared, with all its contents.")
@click.option("--yes", is_flag=True, help="Do not ask. Jobs still need --drain or --force.")
@engine_option
@click.pass_obj
def command(session: Session, name: str, engine: str | None, policy: JobsPolicy, *, purge: bool, yes: bool) -> int:
    """Remove a cluster: its nodes and their data, its networks, NAT rules and keys. Images are kept.

    On a terminal, it says what will be lost and asks for the cluster's name. Elsewhere, it needs --yes. Refused while
    jobs run or wait.
    """
    from gpuprov.workflows.cluster_down import cluster_down, foresee_losses

    options = f"{f' --engine {engine}' if engine else ''}{' --purge' if purge else ''}"
    again = f"gpuprov cluster down {name}{options} --yes"
    would, kept = f"the cluster {name} would be removed", f"the cluster {name} is kept"
    over_hosts = spanning.find_spanning_cluster(session, name, engine)
    if over_hosts is not None:
        if purge:
            spanning.refuse_purge(over_hosts)
        losses = spanning.losses_of(over_hosts)
        if losses and not yes:
            require_agreement(session, name, would, losses, kept=kept, fix=again)
        return spanning.down(session, over_hosts, policy)

    def down(driver: Driver, host: Host) -> Outcome:
        if not yes:
            losses = foresee_losses(driver, name, host, policy, purge=purge, look_inside=session.interactive)
            if losses.busy and session.interactive:
                raise losses.busy
            more = ", with --drain to wait for the jobs, or with --force to end them" if losses.busy else ""
            if losses.lines:
                require_agreement(session, name, would, losses.lines, kept=kept, fix=f"{again}{more}")
        return cluster_down(driver, name, host, reporter=session.reporter, policy=policy, purge=purge)

    change_cluster(session, engine, name, down)
    return 0
