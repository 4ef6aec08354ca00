"""Where runs of a grid are submitted: the text `gpuwork/submit_grid.py`, which is sent into a node that takes jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from gpuprov.assets import get_asset
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.roles.work.grid_answers import read_grid_submitted
from gpuprov.roles.work.grid_controller import run_command, store_of
from gpuprov.roles.work.job_controller import SUBMIT_S, telling_where_to_look
from gpuprov.roles.work.node_program import NodeProgram
from gpuprov.roles.work.work_place import jobs_of, text_argv
from gpuprov.shapes.base import changed, encode
from gpuprov.shapes.grids import MissingRuns

if TYPE_CHECKING:
    from gpuprov.roles.work.job_controller import JobController
    from gpuprov.shapes.grids import GridSubmitted
    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.spec.grid_order import GridOrder

PREPARED: Final = "{folder}"  # stands for the folder of the runs, which the node makes
_TEXT: Final = "submit_grid.py"


@dataclass(frozen=True, kw_only=True)
class GridSubmitter(NodeProgram):
    """The program that submits grids, in the node that takes the jobs of its cluster.

    Attributes:
        controller: Where it takes them.
    """

    controller: JobController
    work: ClassVar[str] = "grids"

    @classmethod
    def of(cls, controller: JobController) -> GridSubmitter:
        """In the same node, for the same person."""
        return cls.beside(controller, controller=controller)

    def argv(self, *arguments: str) -> list[str]:
        """Its text, so that nodes of an older image need not have it; its argument is for those who list processes."""
        text = (get_asset("gpuwork") / _TEXT).read_text(encoding="utf-8")
        return text_argv(text, *arguments, person=self.runs_as)

    def translated(self, fix: str) -> str | None:
        """Its verbs are those of the programs for jobs and grids."""
        return self.controller.translated(fix)

    def submit(self, order: GridOrder, jobs: JobOrder, project: str, *, name: str) -> GridSubmitted:
        """Submit the runs that are missing; they have their own copy of the project when this returns.

        Args:
            order: What is asked for.
            jobs: What each run gets; without a command.
            project: A folder in the node, which is removed then.
            name: The project's name.

        Raises:
            GpuprovError: It was refused, or it is unknown whether it was submitted.
        """
        asked = changed(jobs, name=name, command=run_command(PREPARED, jobs.retries), count=1)
        store, folder = store_of(name, self.runs_as), jobs_of(self.runs_as)
        told = MissingRuns(project=project, store=store, options=order.arguments, jobs=folder, order=asked)
        with telling_where_to_look(self.cluster):
            return self.ask(
                lambda answer: read_grid_submitted(answer, name),
                "submit",
                stdin=encode(told),
                limit_s=scaled_limit_s(2 * SUBMIT_S),  # the project is frozen, and the runs are submitted
                takes=[project],
            )
