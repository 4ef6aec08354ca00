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
    from gpuprov.documents.outcome import nothing_to_do, plan_document
    from gpuprov.planes.across.leaving import SPARE_JOBS
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
    lines, host = (*preview.changes, *replaced), session.host.name
    unlimited = preview.unlimited
    document = plan_document(
        lines, preview.beside, preview.older, host=host, shared=preview.shared, unlimited=unlimited
    )
    changes = (*preview.changes, *replaced) or (nothing_to_do(preview.older),)
    session.show(document, "\n".join((*changes, *preview.beside, *preview.older, *unlimited)))
    return 0
