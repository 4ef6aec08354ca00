"""Where CUDA programs of a cluster are kept and run: the program `gpuwork.programs` in a node that takes jobs."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.roles.work.node_program import NodeProgram
from gpuprov.roles.work.work_place import cuda_program_argv, place_of
from gpuprov.shapes.base import read
from gpuprov.shapes.program_runs import ProgramPages, ProgramPrepared, ProgramProgress
from gpuprov.shapes.programs import ProgramRemoved, Programs
from gpuprov.spec.shared_folder import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.program_runs import RunPage
    from gpuprov.shapes.programs import ListedProgram
    from gpuprov.spec.program_order import ProgramOrder

PREPARE_S: Final = 1800.0  # some GiB of CSV
_RUN: Final = re.compile(r"run-[a-z0-9_]{1,32}")
_LIST: Final = re.compile(r"python3 -m gpuwork\.programs list")


class ProgramController(NodeProgram):
    """The program for CUDA programs, in the node that takes the jobs of its cluster."""

    work: ClassVar[str] = "programs"

    def argv(self, *arguments: str) -> list[str]:
        """With the store of the cluster."""
        return cuda_program_argv(*arguments, person=self.runs_as)

    @property
    def store(self) -> str:
        """Where the nodes have the programs."""
        return place_of(PROGRAMS, self.runs_as)

    @property
    def runs(self) -> str:
        """Where the nodes have their runs."""
        return f"{self.store}/.runs"

    def work_command(self, run: str) -> tuple[str, ...]:
        """The command of a job that is worker `{n}` of a run."""
        return ("python3", "-m", "gpuwork.programs", "--store", self.store, "work", run, "{n}")

    def translated(self, fix: str) -> str | None:
        """Its list is that of `gpuprov program`."""
        if not _LIST.fullmatch(fix):
            return None
        return f"gpuprov program list --as {self.person}" if self.person else "gpuprov program list"

    def prepare(self, order: ProgramOrder, program: str, data: str | None, *, workers: int) -> str:
        """Register a program and prepare a run of it; gives the run's folder in the nodes.

        Args:
            program: The program's folder in the node, which is removed then.
            data: The folder in the node with the CSV file, which is removed too; None for none.
            workers: How many there are to be.
        """
        given = ("--data", f"{data}/{order.data.name}") if data and order.data else ()
        return self.ask(
            partial(_read_run, self.runs),
            *("prepare", program, "--runs", self.runs, "--workers", str(workers), *order.choice, *given),
            limit_s=scaled_limit_s(PREPARE_S),
            takes=[place for place in (program, data) if place],
        )

    def look(self, run: str) -> ProgramProgress:
        """A run as it is."""
        return self.ask(partial(read, ProgramProgress), "look", run)

    def drop(self, run: str) -> None:
        """Have the data of a run removed whose jobs have been cancelled."""
        self.ask(partial(read, ProgramProgress), "drop", run)

    def page(self) -> RunPage | None:
        """Dask's page of the run that began last among those that go on; None where there is none."""
        return self.ask(partial(read, ProgramPages), "pages", self.runs).page

    def programs(self) -> tuple[ListedProgram, ...]:
        """All registered programs."""
        return self.ask(partial(read, Programs), "list").programs

    def remove(self, program: str) -> ListedProgram:
        """Remove a registered program."""
        return self.ask(partial(read, ProgramRemoved), "rm", program).program


def _read_run(runs: str, told: Mapping[str, Any]) -> str:
    """The folder of a run that was prepared; a job's command names it."""
    run = read(ProgramPrepared, told).run
    if not _RUN.fullmatch(run.removeprefix(f"{runs}/")) or not run.startswith(f"{runs}/"):
        raise ValueError(f"run is {run[:100]!r}")
    return run
