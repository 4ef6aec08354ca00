"""The table of nodes that several verbs show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli.tables import render_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.planes.rows import NodeRow

_HEADERS = ("NODE", "STATUS", "ADDRESS", "PRIVATE", "GPU", "SHARING", "ROLE", "SLURM", "HEALTH")


def render_nodes(rows: Sequence[NodeRow], *, colour: bool) -> str:
    """One line for each node; a simulated GPU says so in its own cell."""
    return render_table(
        _HEADERS,
        [
            (
                row.name,
                row.status,
                row.address,
                row.private_address,
                _gpus(row),
                row.sharing,
                row.role,
                row.slurm,
                row.health,
            )
            for row in rows
        ],
        colour=colour,
    )


def _gpus(row: NodeRow) -> str:
    names = ",".join(path.removeprefix("/dev/") for path in row.devices)
    return f"{names} SIMULATED" if names and row.simulated else names
