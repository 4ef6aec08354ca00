"""`gpuprov cluster up`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli import spanning
from gpuprov.cli.agreement import agree_to_shrink, asks_to_shrink, require_agreement
from gpuprov.cli.cluster_spec import spec_of_options, spec_options
from gpuprov.cli.job_options import job_options
from gpuprov.core.names import fold

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.cluster.state import ClusterState
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.planes.across.leaving import JobsPolicy
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.spec.draft import Draft
    from gpuprov.workflows.cluster_up import UpResult


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
    from gpuprov.cluster.retry_after_wait import act_on
    from gpuprov.shapes.outcome import ClusterUp
    from gpuprov.workflows.cluster_up import UpOrder, cluster_up

    over_hosts = spanning.spanning_order(session, wanted, policy)
    if over_hosts is not None:
        confirm = asks_to_shrink(session, wanted, over_hosts.draft.spec.name)
        return spanning.up(session, replace(over_hosts, confirm=confirm))
    flags: dict[str, Any] = {flag: bool(wanted[flag]) for flag in ("keep_on_failure", "verify", "prune")}
    flags["gives_up"] = wanted["file"] is not None

    def bring_up(
        found: tuple[Driver, Draft, ClusterState], host: Host
    ) -> tuple[UpResult, ClusterSpec, tuple[NodeRow, ...]]:
        driver, draft, seen = found
        spec = draft.spec
        agreed = agree_to_shrink(session, wanted, draft, seen)
        order = UpOrder(spec=spec, left=draft.left, seen=seen, policy=policy, agreed=agreed, **flags)
        if wanted["renew"] and _agreed(session, driver, seen, spec, yes=bool(wanted["yes"])):
            from gpuprov.workflows.replace_older import replace_older

            result = replace_older(driver, order, host, reporter=session.reporter)
        else:
            result = cluster_up(driver, order, host, reporter=session.reporter)
        return result, spec, result.rows(driver, spec.name)

    result, spec, rows = act_on(
        session.host,
        lambda: spec_of_options(session, wanted),
        bring_up,
        key=lambda found: found[1],  # whose spec names the engine as well
    )
    text = ["\n".join(result.changed) or "unchanged"]
    if result.report is not None:
        from gpuprov.cli.verify_table import render_report

        text += ["", render_report(result.report, colour=session.colour)]
    text += ["", render_nodes(rows, colour=session.colour), "", next_steps(spec, rows)]
    document = ClusterUp(host=session.host.name, changed=result.changed, verify=result.report or UNSET, nodes=rows)
    session.show(document, "\n".join(text))
    return 0 if result.passed else 1


def _agreed(session: Session, driver: Driver, seen: ClusterState, spec: ClusterSpec, *, yes: bool) -> bool:
    """Whether nodes are to be replaced; False where none has an older image.

    Raises:
        UsageError: It is not agreed to.
    """
    from gpuprov.workflows.replace_older import find_replaceable

    found = find_replaceable(driver, seen, spec)
    if not found.names:
        session.reporter.note("no node is replaced: none has an older image")
    elif not yes:
        require_agreement(
            session,
            spec.name,
            f"{fold(found.names)} of cluster {spec.name} would be replaced, one after the other",
            [found.lost],
            kept=f"no node of cluster {spec.name} was replaced",
            fix="repeat the command with --yes; to see what they lack, with `plan` in place of `up`",
        )
    return bool(found.names)
