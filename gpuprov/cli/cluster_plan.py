"""`gpuprov cluster plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.cluster_spec import cluster_order, spec_options
from gpuprov.cli.failure import show_result

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@spec_options
@click.pass_obj
def command(session: Session, /, **wanted: object) -> int:
    """Show what `cluster up` with the same options would change; changes nothing."""
    from msgspec import UNSET

    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.shapes.outcome import Plan
    from gpuprov.stories.cluster_up import Asking, plan_cluster

    asking = Asking(gives_up=wanted["file"] is not None)
    planned = plan_cluster(open_fleet(session), cluster_order(wanted), asking)
    document = Plan(
        host=session.host.name,
        plan=planned.lines,
        kept=planned.kept,
        older=planned.older,
        shared=planned.shared or UNSET,
        unlimited=planned.unlimited or UNSET,
    )
    nothing = "nothing to do but to replace nodes" if planned.older else "nothing to do: the cluster matches its spec"
    lines = (*(planned.lines or (nothing,)), *planned.kept, *planned.older, *planned.unlimited)
    return show_result(session, document, "\n".join(lines), planned.error)
