"""Everything that is wrong with an order and its project, found without writing anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.shapes.faults import Fault
from gpuwork.errors import Refused
from gpuwork.jobs.function import find_function_faults
from gpuwork.jobs.order import FILE, parse_order
from gpuwork.project_files import list_files

if TYPE_CHECKING:
    from gpuprov.shapes.job_order import JobOrder


def check_order(content: bytes) -> tuple[JobOrder | None, list[str], list[Fault]]:
    """The order, the files of its project, and every fault.

    Raises:
        Refused: The project cannot be read.
    """
    order, faults = parse_order(content)
    names: list[str] = []
    if order is not None and order.project is not None:
        project = Path(order.project)
        try:
            names, found = list_files(project)
            faults += found
            if order.function is not None:
                faults += find_function_faults(project, names, order.function, order.arguments)
        except Refused as error:
            faults.append(Fault(file=FILE, where="project", message=f"{error.what}: {error.evidence[:1000]}"))
        except OSError as error:
            raise Refused("the project cannot be read", evidence=str(error), fix=f"ls -l {project}") from error
    return order, names, faults
