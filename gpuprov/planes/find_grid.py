"""Where the runs of a project are kept in a cluster."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.planes.find_desk import find_desk
from gpuprov.planes.grid_desk import store_of
from gpuprov.spec.grid_order import check_project_name

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from gpuprov.planes.grid_answers import GridTable
    from gpuprov.planes.grid_desk import GridDesk
    from gpuprov.planes.job_desk import JobDesk


def find_desk_of(driver: Driver, cluster: str, project: Path, verb: str) -> JobDesk:
    """Where a cluster takes jobs; `verb` of `grid` is what the user typed."""
    return find_desk(driver, cluster, verb=f"gpuprov grid {verb} {shlex.quote(str(project))}")


def read_runs(desk: GridDesk, project: Path) -> GridTable:
    """All runs of a project.

    Raises:
        UsageError: There are none.
    """
    name = check_project_name(project.name)
    table = desk.table(name)
    if not table.rows:
        raise UsageError(
            f"cluster {desk.cluster} has no runs of {name}",
            evidence=f"{store_of(name)} in its nodes holds none",
            fix=name_cluster(f"gpuprov grid run {shlex.quote(str(project))}", desk.cluster),
        )
    return table
