"""`gpuprov doctor`. The pattern of every verb: parse, call one workflow, render."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import WHERE_NONE_IS_SAID, engine_for_new
from gpuprov.cli.tables import render_table
from gpuprov.shapes.choices import ENGINES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.session import Session
    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.choices import Engine
    from gpuprov.shapes.doctor import Need, Part


@click.command()
@click.option("--engine", type=click.Choice(ENGINES), help=f"The engine to check.  [default: {WHERE_NONE_IS_SAID}]")
@click.pass_obj
def command(session: Session, engine: Engine | None) -> int:
    """List what the host lacks; changes nothing.

    Exits with 3 if a requirement for nodes is missing.
    """
    from gpuprov.core.errors import HostNotReady
    from gpuprov.machine.examine import examine_host
    from gpuprov.shapes.cluster_spec import ClusterSpec

    chosen = engine or engine_for_new(session.host)
    seen = examine_host(session.host, session.reporter, spec=ClusterSpec(engine=chosen))
    rows = [(finding.status, finding.id, finding.evidence) for finding in seen.findings]
    parts = [render_table(("STATUS", "CHECK", "EVIDENCE"), rows, screen=session.screen)]
    if seen.roles:
        parts += ["", *_render_needs(seen.roles, chosen, screen=session.screen)]
    fixes = [f"{finding.id}: {finding.fix}" for finding in seen.findings if finding.fix]
    if fixes:
        parts += ["", "fixes:", *fixes]
    session.show(seen, "\n".join(parts))
    return 0 if seen.passed else HostNotReady.exit_code


def _render_needs(needs: Sequence[Need], engine: str, *, screen: Screen) -> list[str]:
    """A row for each role with the least versions, and one with what this host has."""
    columns: tuple[Part, ...] = ("kernel", "engine", "driver", "compute_capability")
    cells = {(need.role, need.part): need for need in needs}
    has = {need.part: "SIMULATED" if need.met == "SIMULATED" else need.has for need in needs}
    roles = dict.fromkeys(need.role for need in needs)
    rows = [(role, *(_render_need(cells.get((role, part))) for part in columns)) for role in roles]
    rows.append(("this host", *(has.get(part) for part in columns)))
    return [
        "minimum requirements of each role; driver and compute capability only for real GPUs:",
        render_table(("ROLE", "LINUX", engine.upper(), "DRIVER", "COMPUTE CAPABILITY"), rows, screen=screen),
    ]


def _render_need(need: Need | None) -> str | None:
    if need is None:
        return None
    return f"{need.least} (lacking)" if need.met == "no" else need.least
