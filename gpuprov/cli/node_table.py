"""The table of nodes that several verbs show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.tables import PIPE, render_table
from gpuprov.core.names import fold
from gpuprov.planes.registry import plane_of, planes_of
from gpuprov.shapes.cluster_spec import NodesSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cli.tables import Screen
    from gpuprov.shapes.nodes import NodeRow


def render_nodes(rows: Sequence[NodeRow], *, screen: Screen = PIPE, spans: bool = False) -> str:
    """One line for each node; a simulated GPU says so in its own cell. With `spans`, each has its host in it."""
    planes = planes_of(row.role for row in rows if row.work) or (plane_of(NodesSpec().role),)
    work = "/".join(plane.title.upper() for plane in planes)
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
            "HEALTH",
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
                row.health,
            )
            for row in rows
        ],
        screen=screen,
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
