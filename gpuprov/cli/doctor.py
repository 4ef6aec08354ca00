"""`gpuprov doctor`. The pattern of every verb: parse, call one workflow, render."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.tables import render_table

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.spec.models import Engine


@click.command()
@click.option(
    "--engine",
    type=click.Choice(["lxd", "incus", "docker"]),
    default="lxd",
    show_default=True,
    help="The engine that nodes shall live in.",
)
@click.pass_obj
def command(session: Session, engine: Engine) -> int:
    """Look at the host and say what is missing; changes nothing.

    Exits with 3 when something that nodes need is missing.
    """
    from gpuprov.core.errors import HostNotReady
    from gpuprov.spec.models import ClusterSpec
    from gpuprov.workflows.doctor import examine_host

    findings = examine_host(session.reporter, spec=ClusterSpec(engine=engine))
    rows = [(finding.status, finding.id, finding.evidence) for finding in findings]
    fixes = [f"{finding.id}: {finding.fix}" for finding in findings if finding.fix]
    table = render_table(("STATUS", "CHECK", "EVIDENCE"), rows, colour=session.colour)
    session.show(
        {"findings": [finding.to_json() for finding in findings]},
        "\n".join([table, "", "what to do:", *fixes] if fixes else [table]),
    )
    return HostNotReady.exit_code if any(finding.status == "fail" for finding in findings) else 0
