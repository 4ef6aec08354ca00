"""`gpuprov cluster up`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from gpuprov.cli.agreement import agree_to_renew, asks_to_shrink
from gpuprov.cli.cluster_spec import cluster_order, spec_options
from gpuprov.cli.job_options import job_options
from gpuprov.cli.show_result import show_result

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.planes.across.leaving import JobsPolicy


@click.command()
@spec_options
@click.option("--keep-on-failure", is_flag=True, help="If the run fails, keep what it created, for inspection.")
@click.option(
    "--verify/--no-verify", default=True, help="Verify the nodes once they are up, if more than limits of jobs changed."
)
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask before --renew replaces nodes, or nodes or the shared folder go because the file says less.",
)
@job_options
@click.pass_obj
def command(session: Session, /, *, policy: JobsPolicy, **wanted: object) -> int:
    """Create, grow, shrink or repair a cluster.

    Without -f, the command starts from the spec that is recorded with the cluster; options override it. Nodes beyond
    the count are removed, but not those that create-node or clone added, unless --prune is given. If nodes or the
    shared folder would go because the file says less than the cluster has, it asks on a terminal, and needs --yes
    elsewhere. Refused while jobs run on nodes that it would remove or restart.
    """
    from msgspec import UNSET

    from gpuprov.cli.next_steps import next_steps
    from gpuprov.cli.node_table import render_nodes
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.fleet.host_statuses import host_statuses
    from gpuprov.shapes.outcome import ClusterUp
    from gpuprov.stories.cluster_up import Asking, bring_up

    asking = Asking(
        shrink=asks_to_shrink(session, wanted),
        renew=None if wanted["yes"] else partial(agree_to_renew, session),
        gives_up=wanted["file"] is not None,
    )
    result = bring_up(open_fleet(session), cluster_order(wanted, policy), asking)
    changed, spans = result.outcome.changed, bool(result.spec.hosts)
    text = ["\n".join(changed) or ("" if result.error else "unchanged")]
    if result.report is not None:
        from gpuprov.cli.verify_table import render_report

        text += ["", render_report(result.report, screen=session.screen)]
    if result.rows:
        table = render_nodes(result.rows, screen=session.screen, spans=spans)
        text += ["", table, "", next_steps(result.spec, result.rows)]
    hosts = (host.name for host in result.spec.hosts)
    document = ClusterUp(
        host=session.host.name,
        changed=changed,
        verify=result.report or UNSET,
        nodes=result.rows,
        hosts=host_statuses(hosts, result.failed, result.away) if spans else UNSET,
    )
    return show_result(session, document, "\n".join(text), result.error, 0 if result.passed else 1)
