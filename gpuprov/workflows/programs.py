"""`program list`, `rm` and `page`: registered programs, and Dask's page of a run; holds no lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.core.names import name_cluster
from gpuprov.planes.find_desk import find_desk
from gpuprov.planes.program_desk import ProgramDesk
from gpuprov.planes.queue_page import NodePage

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver
    from gpuprov.planes.program_answers import ProgramRow


def list_programs(driver: Driver, cluster: str) -> tuple[ProgramRow, ...]:
    """All programs that are registered in a cluster."""
    return ProgramDesk.beside(find_desk(driver, cluster, verb="gpuprov program list")).programs()


def remove_program(driver: Driver, cluster: str, program: str) -> ProgramRow:
    """Remove a registered program with all that was built of it.

    Raises:
        UsageError: There is none of that hash, or it is in use.
    """
    return ProgramDesk.beside(find_desk(driver, cluster, verb="gpuprov program rm")).remove(program)


def find_run_page(driver: Driver, cluster: str) -> NodePage:
    """Dask's page of the run that goes on; of several, of the one that began last.

    Raises:
        UsageError: No run goes on, or Dask has no page.
    """
    page = ProgramDesk.beside(find_desk(driver, cluster, verb="gpuprov program page")).page()
    if page is None:
        raise UsageError(
            f"no run of a program with a page goes on in cluster {cluster}",
            evidence="a run has Dask's page while its workers are connected",
            fix=name_cluster("gpuprov jobs", cluster),
        )
    return NodePage(node=page.node, port=page.port, fix=name_cluster("gpuprov jobs", cluster))
