"""The table of nodes that several verbs show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.tables import PIPE, render_table
from gpuprov.core.names import fold
from gpuprov.roles.registry import role_of, roles_of
from gpuprov.shapes.cluster_spec import NodesSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.nodes import NodeRow
    from gpuprov.shapes.verify import Report


def render_nodes(
    rows: Sequence[NodeRow], *, screen: Screen = PIPE, spans: bool = False, report: Report | None = None
) -> str:
    """One line for each node; a simulated GPU says so in its own cell.

    Args:
        rows: The nodes.
        screen: Where it is shown.
        spans: Whether each line has the node's host in it.
        report: What `verify` has found: its verdicts stand in place of the health of nodes if all are healthy.
    """
    verdicts = {node.node: node.verdict for node in report.nodes} if report else {}
    told: dict[str, list[object]] = {"VERDICT": [verdicts.get(row.name) for row in rows]} if report else {}
    if not report or any(row.health != "ok" for row in rows):
        told["HEALTH"] = [row.health for row in rows]
    roles = roles_of(row.role for row in rows if row.work) or (role_of(NodesSpec().role),)
    work = "/".join(role.title.upper() for role in roles)
    return render_table(
        (
            "NODE",
            *(("HOST",) if spans else ()),
            "STATUS",
            "ADDRESS",
            "PRIVATE",
            "GPU",
            "SHARING",
            "ROLE",
            work,
            *told,
        ),
        [
            (
                row.name,
                *((row.host,) if spans else ()),
                row.status,
                row.address,
                row.private_address,
                _gpus(row),
                row.sharing,
                row.role,
                row.work,
                *last,
            )
            for row, *last in zip(rows, *told.values(), strict=True)
        ],
        screen=screen,
        spare=("SHARING", "PRIVATE", "ROLE", "ADDRESS"),
    )


def render_limits(rows: Sequence[NodeRow]) -> str:
    """What nodes may use of their hosts: a line for those that have the same limits."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        alike.setdefault(row.limits.words, []).append(row.name)
    return "\n".join(f"limits of {fold(names)}: {words}" for words, names in alike.items())


def _gpus(row: NodeRow) -> str:
    names = ",".join(path.removeprefix("/dev/") for path in row.devices)
    return f"{names} SIMULATED" if names and row.simulated else names
