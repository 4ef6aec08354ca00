"""Where annealing of a cluster is kept and asked for: the program `gpuwork.anneal` in a node that takes jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.roles.work.node_program import NodeProgram
from gpuprov.roles.work.work_place import anneal_argv, place_of
from gpuprov.shapes.anneal import AnnealPrepared, AnnealShown
from gpuprov.shapes.base import read
from gpuprov.spec.shared_folder import ANNEALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.shapes.anneal import Run

MERGE_S: Final = 900.0  # the program itself ends what exceeds merge_limit_s


def part_command(folder: str) -> tuple[str, ...]:
    """The command of a job that runs part `{n}` of what was prepared."""
    return ("python3", "-m", "gpuwork.anneal", "part", folder, "{n}")


class AnnealController(NodeProgram):
    """The program for annealing, in the node that takes the jobs of its cluster."""

    work: ClassVar[str] = "annealing"

    def argv(self, *arguments: str) -> list[str]:
        """Each verb names its folder itself."""
        return anneal_argv(*arguments, person=self.runs_as)

    def store_of(self, name: str) -> str:
        """Where the nodes have what was prepared together."""
        return f"{place_of(ANNEALS, self.runs_as)}/{name}"

    def translated(self, fix: str) -> str | None:  # noqa: ARG002
        """Its commands are about folders in the node."""
        return None

    def prepare(self, arguments: Sequence[str], folder: str, *, parts: int, project: str) -> AnnealPrepared:
        """Freeze models in a new folder.

        Args:
            arguments: Files in the node, and what is asked of them.
            folder: The new one.
            parts: Into how many the chains of each run are divided, at most.
            project: The folder in the node that has the files, which is removed then.
        """
        return self.ask(
            lambda told: _read_prepared(told, folder),
            *("prepare", *arguments, "--store", folder, "--parts", str(parts)),
            takes=[project],
        )

    def look(self, folder: str, *, with_series: bool = False) -> tuple[Run, ...]:
        """How far the runs of a folder are, and what they found."""
        return self.ask(_read_runs, "show", folder, *(("--series",) if with_series else ()))

    def merge(self, folder: str) -> tuple[Run, ...]:
        """Merge the results of all parts."""
        return self.ask(_read_runs, "merge", folder, limit_s=scaled_limit_s(MERGE_S))


def _read_prepared(told: Mapping[str, Any], folder: str) -> AnnealPrepared:
    prepared = read(AnnealPrepared, told)
    if prepared.folder != folder or sum(run.parts for run in prepared.runs) != prepared.parts:
        raise ValueError(f"it prepared {prepared.parts} parts in {prepared.folder[:100]!r}")
    return prepared


def _read_runs(told: Mapping[str, Any]) -> tuple[Run, ...]:
    return read(AnnealShown, told).runs
