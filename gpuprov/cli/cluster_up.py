"""`gpuprov cluster up`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.cluster_spec import spec_options, wanted_spec
from gpuprov.cli.engine import host_gpus, observe_gpus

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@spec_options
@click.option("--keep-on-failure", is_flag=True, help="Leave what this run made when it fails, for a look.")
@click.option("--verify/--no-verify", default=True, help="Prove the nodes once they are up, if anything changed.")
@click.pass_obj
def command(session: Session, /, **wanted: object) -> int:
    """Bring a cluster to what is asked: make it, grow it, shrink it, repair it.

    Without -f the cluster's own recorded spec is the start, and the flags change it.
    """
    from gpuprov.cli.next_steps import next_steps
    from gpuprov.cli.node_table import render_nodes
    from gpuprov.documents.outcome import cluster_up_document
    from gpuprov.planes.rows import cluster_status
    from gpuprov.workflows.cluster_up import Request, cluster_up

    driver, spec = wanted_spec(wanted)
    host = host_gpus(session, spec.gpus.mode)
    outcome = cluster_up(
        driver, Request(spec=spec, keep_on_failure=bool(wanted["keep_on_failure"])), host, reporter=session.reporter
    )
    text = ["\n".join(outcome.changed) or "unchanged"]
    report = None
    if wanted["verify"] and not outcome.unchanged:
        from gpuprov.cli.verify_table import render_report
        from gpuprov.workflows.verify import HostSight, verify_cluster

        report = verify_cluster(
            driver, spec.name, host=HostSight(observe_gpus=observe_gpus), nodes=None, reporter=session.reporter
        )
        text += ["", render_report(report, colour=session.colour)]
    rows = cluster_status(driver, spec.name)
    text += ["", render_nodes(rows, colour=session.colour), "", next_steps(spec, rows)]
    session.show(cluster_up_document(outcome, report, rows, host=session.host), "\n".join(text))
    return 0 if report is None or report.passed else 1
