"""`gpuprov verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import cluster_option, engine_option, observe_gpus, open_engine
from gpuprov.cli.parameters import complete_nodes
from gpuprov.core.names import expand

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@click.argument("nodes", nargs=-1, shell_complete=complete_nodes)
@cluster_option
@engine_option
@click.pass_obj
def command(session: Session, nodes: tuple[str, ...], cluster: str, engine: str) -> int:
    """Prove that nodes work: devices, NVML, kernels, networks, Slurm. Exits with 1 when something is wrong."""
    from gpuprov.cli.verify_table import render_report
    from gpuprov.verify.report import to_document
    from gpuprov.workflows.verify import verify_cluster

    driver = open_engine(engine)
    wanted = expand(",".join(nodes)) if nodes else None
    report = verify_cluster(driver, cluster, observe_gpus=observe_gpus, nodes=wanted, reporter=session.reporter)
    session.show(to_document(report), render_report(report, colour=session.colour))
    return 0 if report.passed else 1
