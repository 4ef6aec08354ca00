"""`gpuprov cluster plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli import spanning
from gpuprov.cli.cluster_spec import spec_of_options, spec_options

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@spec_options
@click.pass_obj
def command(session: Session, /, **wanted: object) -> int:
    """Show what `cluster up` with the same options would change; changes nothing."""
    from msgspec import UNSET

    from gpuprov.planes.across.leaving import SPARE_JOBS
    from gpuprov.shapes.outcome import Plan
    from gpuprov.workflows.cluster_up import UpOrder, preview_up

    over_hosts = spanning.spanning_order(session, wanted, SPARE_JOBS)
    if over_hosts is not None:
        return spanning.plan(session, over_hosts)
    driver, draft, seen = spec_of_options(session, wanted)
    gives_up = wanted["file"] is not None
    order = UpOrder(spec=draft.spec, left=draft.left, prune=bool(wanted["prune"]), gives_up=gives_up)
    preview = preview_up(driver, order, session.host, reporter=session.reporter)
    for line in filter(None, (preview.choice, preview.shared)):
        session.reporter.note(line)
    replaced: tuple[str, ...] = ()
    if wanted["renew"]:
        from gpuprov.workflows.replace_older import find_replaceable

        replaced = find_replaceable(driver, seen, draft.spec).lines
    unlimited = preview.unlimited
    document = Plan(
        host=session.host.name,
        plan=(*preview.changes, *replaced),
        kept=preview.beside,
        older=preview.older,
        shared=preview.shared or UNSET,
        unlimited=unlimited or UNSET,
    )
    changes = (*preview.changes, *replaced) or (spanning.nothing_to_do(preview.older),)
    session.show(document, "\n".join((*changes, *preview.beside, *preview.older, *unlimited)))
    return 0
