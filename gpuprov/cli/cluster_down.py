"""`gpuprov cluster down`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import change_cluster, cluster_argument, engine_option
from gpuprov.cli.job_options import job_options
from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.planes.leaving import JobsPolicy


@click.command()
@cluster_argument
@job_options
@click.option("--yes", is_flag=True, help="End running and queued jobs without asking.")
@engine_option
@click.pass_obj
def command(session: Session, name: str, engine: str | None, policy: JobsPolicy, *, yes: bool) -> None:
    """Remove a cluster: its nodes and their data, its networks, NAT rules and keys. Images are kept.

    While jobs run or wait, it asks on a terminal, and is refused elsewhere.
    """
    from gpuprov.workflows.cluster_down import cluster_down, find_work

    def down(driver: Driver, host: Host) -> Outcome:
        agreed = yes
        if not (yes or policy.force) and policy.drain_s is None and session.interactive:
            work = find_work(driver, name)
            if work and not click.confirm(f"{work}\nRemove the cluster {name}?", err=True):
                raise UsageError(
                    f"the cluster {name} is kept",
                    evidence=work,
                    fix=f"wait for the jobs: gpuprov cluster down {name} --drain",
                )
            agreed = bool(work)
        wanted = replace(policy, force=policy.force or agreed)
        return cluster_down(driver, name, host, reporter=session.reporter, policy=wanted)

    change_cluster(session, engine, name, down)
