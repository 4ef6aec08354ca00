"""`gpuprov cluster down`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gpuprov.cli import spanning
from gpuprov.cli.engine import change_cluster, cluster_argument, engine_option
from gpuprov.cli.job_options import job_options
from gpuprov.core.errors import UsageError

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
@click.option(
    "--yes", is_flag=True, help="Do not ask: end running and queued jobs, and with --purge remove the folder."
)
@engine_option
@click.pass_obj
def command(session: Session, name: str, engine: str | None, policy: JobsPolicy, *, purge: bool, yes: bool) -> int:
    """Remove a cluster: its nodes and their data, its networks, NAT rules and keys. Images are kept.

    While jobs run or wait, and before a folder with results is removed, it asks on a terminal, and is refused
    elsewhere.
    """
    from gpuprov.workflows.cluster_down import cluster_down, find_results, find_work

    over_hosts = spanning.find_spanning_cluster(session, name, engine)
    if over_hosts is not None:
        return spanning.down(session, over_hosts, replace(policy, force=policy.force or yes))

    def down(driver: Driver, host: Host) -> Outcome:
        agreed = yes
        results = find_results(driver, name, host) if purge and not yes else ""
        if results and not session.interactive:
            raise UsageError(
                f"the folder {results} would be removed with all its contents",
                evidence="--purge was given, and there is no terminal on which to ask",
                fix=f"gpuprov cluster down {name} --purge --yes",
            )
        if not (yes or policy.force) and policy.drain_s is None and session.interactive:
            work = find_work(driver, name)
            if work and not click.confirm(f"{work}\nRemove the cluster {name}?", err=True):
                raise UsageError(
                    f"the cluster {name} is kept",
                    evidence=work,
                    fix=f"wait for the jobs: gpuprov cluster down {name} --drain",
                )
            agreed = bool(work)
        if results and not click.confirm(f"Remove {results} with all its contents as well?", err=True):
            raise UsageError(
                f"the cluster {name} is kept",
                evidence=f"{results} would have been removed with it",
                fix=f"without --purge, the folder stays: gpuprov cluster down {name}",
            )
        wanted = replace(policy, force=policy.force or agreed)
        return cluster_down(driver, name, host, reporter=session.reporter, policy=wanted, purge=purge)

    change_cluster(session, engine, name, down)
    return 0
