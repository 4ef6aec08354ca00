"""Which runs `scancel` ended: Slurm knows that for `MinJobAge` seconds, its accounting for as long as it keeps jobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpuwork.errors import SlurmError
from gpuwork.jobs.command import ask

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpuprov.shapes.job_run import Chunk

_LOOK_S: Final = 10.0
_MOST_ASKED: Final = 20  # submissions of which a list asks: each takes two commands
_TASKS: Final = r"[0-9]{1,7}|\[[0-9,-]{1,5000}(?:\.\.\.)?(?:%[0-9]{1,7})?\]"  # a long list ends with dots
_LINE: Final = re.compile(rf"([0-9]{{1,10}})_({_TASKS})\|([A-Z_]{{1,30}})", re.ASCII)
_CANCELLED: Final = "CANCELLED"
_WAITS: Final = "PENDING"
_RANGE: Final = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")


class CancelledTasks:
    """Asks Slurm; of a submission once."""

    def __init__(self) -> None:
        """Nothing has been asked yet."""
        self._known: dict[tuple[int, ...], tuple[set[int], set[int]]] = {}

    def of(self, chunks: Sequence[Chunk], begun: Collection[int]) -> frozenset[int]:
        """The numbers of those runs of a submission; none where Slurm does not answer.

        Args:
            chunks: Its arrays.
            begun: The runs that left anything of themselves, so that only Slurm's word tells how they ended.
        """
        arrays = tuple(chunk.slurm for chunk in chunks)
        if arrays not in self._known:
            if len(self._known) == _MOST_ASKED:
                return frozenset()
            self._known[arrays] = _find(chunks)
        cancelled, absent = self._known[arrays]
        return frozenset(cancelled | absent.difference(begun))


def _find(chunks: Sequence[Chunk]) -> tuple[set[int], set[int]]:
    """Those that Slurm calls cancelled, and those of an array on record of which there is no record that they began.

    Slurm forgets a single task at once that is cancelled while it waits; one that began is on record.
    """
    ids = ",".join(str(chunk.slurm) for chunk in chunks)
    ends, records = (
        parse_ends(_ask(argv), chunks)
        for argv in (
            ["squeue", "-h", "-r", "-t", "CANCELLED", "-j", ids, "-o", "%F_%K|%T"],
            ["sacct", "-n", "-X", "-P", "-j", ids, "-o", "JobID,State"],
        )
    )
    runs = [range(chunk.first, chunk.first + chunk.size) for chunk in chunks]
    known = [numbers for numbers in runs if records.keys() & set(numbers)]
    # the accounting hears of a task that waited and is gone when the next one of the array starts
    absent = {number for numbers in known for number in numbers if records.get(number, _WAITS) == _WAITS}
    return {number for told in (ends, records) for number, state in told.items() if state == _CANCELLED}, absent


def _ask(argv: Sequence[str]) -> str:
    try:
        return ask(argv, limit_s=_LOOK_S)
    except SlurmError:  # it has forgotten these jobs, or keeps no accounts
        return ""


def parse_ends(said: str, chunks: Sequence[Chunk]) -> dict[int, str]:
    """The state of runs by number, from lines such as `17_[0-3,5]|CANCELLED by 0`; others are skipped.

    A task that was requeued has a line for each time; the last one counts.
    """
    ends: dict[int, str] = {}
    for line in said.splitlines():
        match = _LINE.match(line)
        chunk = next((one for one in chunks if match and one.slurm == int(match[1])), None)
        if match is None or chunk is None:
            continue
        for first, last in _RANGE.findall(match[2].partition("%")[0]):
            # what Slurm lists is bounded by what was handed in
            for task in range(int(first), min(int(last or first), chunk.size - 1) + 1):
                ends[chunk.first + task] = match[3]
    return ends
