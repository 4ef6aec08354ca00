"""Where the runs of a project are kept in a cluster."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.planes.across.find_desk import get_desk
from gpuprov.planes.work.grid_desk import store_of
from gpuprov.spec.grid_order import check_project_name

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from gpuprov.planes.work.grid_desk import GridDesk
    from gpuprov.planes.work.job_desk import JobDesk
    from gpuprov.shapes.grids import GridListed


def get_desk_of(driver: Driver, cluster: str, project: Path, grid_verb: str) -> JobDesk:
    """Where a cluster takes jobs; the verb is what the user typed.

    Raises:
        UsageError: The project cannot have a grid there, or the cluster takes no jobs.
    """
    check_project_name(project.name)
    return get_desk(driver, cluster, verb=f"gpuprov grid {grid_verb} {shlex.quote(str(project))}")


def read_runs(desk: GridDesk, project: Path) -> GridListed:
    """All runs of a project.

    Raises:
        UsageError: There are none.
    """
    table = desk.table(project.name)
    if not table.rows:
        raise UsageError(
            f"cluster {desk.cluster} has no runs of {project.name}",
            evidence=f"{store_of(project.name)} in its nodes holds none",
            fix=name_cluster(f"gpuprov grid run {shlex.quote(str(project))}", desk.cluster),
        )
    return table
