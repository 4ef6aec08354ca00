"""`gpuprov verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import cluster_option, engine_option, gpu_mode_option, host_gpus, open_engine
from gpuprov.cli.parameters import complete_nodes
from gpuprov.core.names import expand

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.argument("nodes", nargs=-1, shell_complete=complete_nodes)
@cluster_option
@gpu_mode_option
@engine_option
@click.pass_obj
def command(session: Session, nodes: tuple[str, ...], cluster: str, gpu_mode: str | None, engine: str) -> int:
    """Prove that nodes work: devices, NVML, kernels, networks, Slurm. Exits with 1 when something is wrong."""
    from gpuprov.cli.verify_table import render_report
    from gpuprov.workflows.verify import verify_cluster

    driver = open_engine(engine)
    wanted = expand(",".join(nodes)) if nodes else None
    host = host_gpus(session, gpu_mode)
    report = verify_cluster(driver, cluster, nodes=wanted, host=host, reporter=session.reporter)
    session.show(report.to_json(), render_report(report, colour=session.colour))
    return 0 if report.passed else 1
