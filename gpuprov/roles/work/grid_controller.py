"""Where grids of a cluster are kept and asked for: the program `gpuwork.grid` in a node that takes jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from gpuprov.roles.work.grid_answers import read_combinations, read_table
from gpuprov.roles.work.node_program import NodeProgram
from gpuprov.roles.work.work_place import grid_argv, place_of
from gpuprov.shapes.base import read
from gpuprov.shapes.grids import RUNS, GridSeries
from gpuprov.spec.shared_folder import GRIDS

if TYPE_CHECKING:
    from gpuprov.shapes.grids import GridListed


def store_of(project: str, person: str) -> str:
    """Where the nodes have the runs of a project: of the account of jobs, or of somebody."""
    return f"{place_of(GRIDS, person)}/{project}/{RUNS}"


def run_command(folder: str, retries: int) -> tuple[str, ...]:
    """The command of a job that makes run `{n}` of what was prepared."""
    again = ("--retries", str(retries)) if retries else ()
    return ("python3", "-m", "gpuwork.grid", "one", folder, "{n}", *again)


class GridController(NodeProgram):
    """The program for grids, in the node that takes the jobs of its cluster."""

    work: ClassVar[str] = "grids"

    def argv(self, *arguments: str) -> list[str]:
        """Each verb names its folder itself."""
        return grid_argv(*arguments, person=self.runs_as)

    def translated(self, fix: str) -> str | None:  # noqa: ARG002
        """Its commands are about folders in the node."""
        return None

    def combinations(self, project: str) -> tuple[str, ...]:
        """The hash of the values of each combination that a project asks for.

        Args:
            project: A folder in the node, which is removed then.

        Raises:
            GpuprovError: The project has faults.
        """
        return self.ask(read_combinations, "check", project, takes=[project])

    def table(self, name: str) -> GridListed:
        """All runs of a project."""
        return self.ask(read_table, "list", store_of(name, self.runs_as))

    def series(self, name: str) -> GridSeries:
        """The series of a project's runs, thinned out."""
        return self.ask(lambda told: read(GridSeries, told), "series", store_of(name, self.runs_as))
