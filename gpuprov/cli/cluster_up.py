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
@click.option("--keep-on-failure", is_flag=True, help="If the run fails, keep what it created, for inspection.")
@click.option("--verify/--no-verify", default=True, help="Verify the nodes once they are up, if anything changed.")
@click.pass_obj
def command(session: Session, /, **wanted: object) -> int:
    """Create, grow, shrink or repair a cluster.

    Without -f, the command starts from the spec that is recorded with the cluster; options override it.
    """
    from gpuprov.cli.next_steps import next_steps
    from gpuprov.cli.node_table import render_nodes
    from gpuprov.planes.rows import cluster_status
    from gpuprov.workflows.cluster_up import Request, cluster_up

    driver, spec = wanted_spec(wanted)
    host = host_gpus(session, spec.gpus.mode)
    outcome = cluster_up(
        driver, Request(spec=spec, keep_on_failure=bool(wanted["keep_on_failure"])), host, reporter=session.reporter
    )
    document: dict[str, object] = {"changed": list(outcome.changed), "unchanged": outcome.unchanged}
    text = ["\n".join(outcome.changed) or "unchanged"]
    passed = True
    if wanted["verify"] and not outcome.unchanged:
        from gpuprov.cli.verify_table import render_report
        from gpuprov.verify.report import to_document
        from gpuprov.workflows.verify import HostSight, verify_cluster

        report = verify_cluster(
            driver, spec.name, host=HostSight(observe_gpus=observe_gpus), nodes=None, reporter=session.reporter
        )
        document["verify"] = to_document(report)
        text += ["", render_report(report, colour=session.colour)]
        passed = report.passed
    rows = cluster_status(driver, spec.name)
    document["nodes"] = [vars(row) for row in rows]
    text += ["", render_nodes(rows, colour=session.colour), "", next_steps(spec, rows)]
    session.show(document, "\n".join(text))
    return 0 if passed else 1
