"""The runs of a grid that a node gave, put into a project's folder on this machine: what is there stays as it is."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.printable import printable
from gpuprov.core.report_file import ReportFile
from gpuprov.core.units import MIB
from gpuprov.project.incoming_files import move_runs, receiving_into
from gpuprov.shapes.grids import RUNS, VALUES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractContextManager
    from pathlib import Path

TABLE: Final = "results.csv"
_MOST_VALUES: Final = 4 * MIB
_RUN_DEPTH: Final = 2


class PulledRuns:
    """The folder of runs of a project.

    Args:
        project: Its folder.

    Raises:
        UsageError: Something else is at `runs`.
    """

    def __init__(self, project: Path) -> None:
        self.folder = project / RUNS
        if self.folder.is_symlink() or (self.folder.exists() and not self.folder.is_dir()):
            raise self._in_the_way("it is not a folder")

    def lacks(self, names: Collection[str]) -> frozenset[str]:
        """Those of the runs that are not here."""
        return frozenset(name for name in names if not (self.folder / name).exists())

    def open_table(self, begin: str) -> ReportFile:
        """The file for the table of all runs; one of an earlier pull is replaced.

        Raises:
            UsageError: Another file has its name, or it cannot be written.
        """
        path = self.folder / TABLE
        if path.is_symlink():
            raise self._in_the_way(f"{TABLE} is a link")
        with suppress(FileNotFoundError), path.open("rb") as file:
            if file.read(len(begin)) != begin.encode():
                raise self._in_the_way(f"{TABLE} was not written by an earlier pull")
        return ReportFile(str(path), option="runs", kind="table")

    def receiving(self) -> AbstractContextManager[Path]:
        """A path for what comes, in the folder; nothing is left there behind the block."""
        return receiving_into(self.folder, self._in_the_way)

    def take_in(self, place: Path, names: Collection[str]) -> tuple[str, ...]:
        """Move runs from where they were received to their places; the names of those that came.

        Raises:
            UsageError: A combination here has other values; nothing was moved.
            EngineError: The values of a combination did not come.
            HostNotReady: They cannot be moved.
        """
        came = sorted(name for name in names if (place / name).is_dir())
        new = []
        for param in sorted({name.partition("/")[0] for name in came}):
            values, here = _values(place / param), self.folder / param
            if values is None:
                raise EngineError(
                    f"the values of {param} were not received",
                    evidence=f"{VALUES} is missing, or has more than {_MOST_VALUES} bytes",
                    fix="run the same command again",
                )
            if not (here.is_symlink() or here.exists()):
                new.append(param)
            elif here.is_symlink() or _values(here) != values:
                raise self._in_the_way(f"{param} has other values here than in the cluster")
        try:
            for param in new:
                (self.folder / param).mkdir()
        except OSError as error:
            raise self._in_the_way(error.strerror or str(error)) from error
        move_runs(place, self.folder, [*(f"{param}/{VALUES}" for param in new), *came])
        return tuple(came)

    def _in_the_way(self, why: str) -> UsageError:
        shown = printable(str(self.folder), lines=False)
        return UsageError(
            f"runs cannot be put into {shown}; nothing was copied",
            evidence=f"{shown}: {why}",
            fix=f"move it away, then run the same command again: mv {shown} {shown}.before",
        )


def only(names: Collection[str]) -> Callable[[tuple[str, ...]], bool]:
    """Tells whether a path below a folder of runs is of one of these runs, or leads to it."""
    params = {name.partition("/")[0] for name in names}

    def wants(parts: tuple[str, ...]) -> bool:
        if len(parts) >= _RUN_DEPTH and parts[1:] != (VALUES,):
            return "/".join(parts[:_RUN_DEPTH]) in names
        return not parts or parts[0] in params

    return wants


def _values(param: Path) -> bytes | None:
    path = param / VALUES
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_VALUES:
            return None
        return path.read_bytes()
    except OSError:
        return None
