"""The results of a job that a node gave, put into a folder of this machine: what is there stays as it is."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.printable import printable
from gpuprov.project.incoming_files import move_runs, receiving_into

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractContextManager
    from pathlib import Path

RESULTS: Final = frozenset({"log.txt", "work", "done.json"})
_WORK: Final = "work"


class PulledJob:
    """The folder that gets the runs of a job.

    Args:
        folder: Where they go.
        again: The command that was typed, without the folder.
        is_one: Whether it gets the files of one run; otherwise, a folder for each.

    Raises:
        UsageError: Something else is there.
    """

    def __init__(self, folder: Path, *, again: str, is_one: bool) -> None:
        self.folder = folder.absolute()
        self._again, self._is_one = again, is_one
        if not self.folder.parent.is_dir():
            raise self._in_the_way(f"{self.folder.parent} is not a folder")
        if self.folder.is_symlink() or (self.folder.exists() and (is_one or not self.folder.is_dir())):
            raise self._in_the_way("it exists")

    def lacks(self, numbers: Collection[str]) -> tuple[str, ...]:
        """Those of the runs that are not here."""
        return tuple(number for number in numbers if self._is_one or not _is_there(self.folder / number))

    def wants(self, numbers: Collection[str]) -> Callable[[tuple[str, ...]], bool]:
        """Tells whether a path below what the node gives is a result of one of these runs, or leads to it."""

        def wants(parts: tuple[str, ...]) -> bool:
            below = parts if self._is_one else parts[1:]
            return (self._is_one or not parts or parts[0] in numbers) and (not below or below[0] in RESULTS)

        return wants

    def is_of_project(self, parts: tuple[str, ...]) -> bool:
        """Whether a link there is one to a file of the project, which each run begins with."""
        below = parts if self._is_one else parts[1:]
        return len(below) == len((_WORK, "NAME")) and below[0] == _WORK

    def receiving(self) -> AbstractContextManager[Path]:
        """A path for what comes; of several runs, nothing is left there behind the block."""
        return nullcontext(self.folder) if self._is_one else receiving_into(self.folder, self._in_the_way)

    def take_in(self, place: Path, numbers: Collection[str]) -> tuple[str, ...]:
        """Move runs from where they were received to their places; the numbers of those that came.

        Raises:
            EngineError: None came.
            HostNotReady: They cannot be moved.
        """
        if self._is_one:
            return tuple(numbers)
        came = tuple(number for number in numbers if (place / number).is_dir())
        if not came:
            raise EngineError(
                "the node sent none of the runs", evidence="their folders are not there", fix="see them: gpuprov jobs"
            )
        move_runs(place, self.folder, came)
        return came

    def _in_the_way(self, why: str) -> UsageError:
        shown = printable(str(self.folder), lines=False)
        return UsageError(
            f"results cannot be put into {shown}; nothing was copied",
            evidence=f"{shown}: {why}",
            fix=f"name another folder: {self._again} FOLDER",
        )


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()
