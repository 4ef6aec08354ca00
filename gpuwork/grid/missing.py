"""Which runs are still to be made, so that handing the same grid in again makes none. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuwork.grid.store import Param
from gpuwork.grid.values import hash_values

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gpuwork.grid.values import ParameterValue


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A run that is to be made; its folder may be there, left by one that did not come to an end."""

    name: str
    values: Mapping[str, ParameterValue]


@dataclass(frozen=True, kw_only=True)
class Missing:
    """What is to be made, and what is not made again.

    Attributes:
        runs: Every combination's first run first, then every second one.
        done: How many are done.
        under_way: How many are waiting or running elsewhere.
        other_code: How many of the done ones ran other code than the project's is now.
    """

    runs: tuple[Planned, ...]
    done: int
    under_way: int
    other_code: int


@dataclass(frozen=True, kw_only=True)
class GridRequest:
    """What is asked for.

    Attributes:
        combinations: The values of each.
        reps: How many good runs of each there are to be.
        code: The hash of the project's files.
        stamp: Date and time, for the names of new runs.
    """

    combinations: Sequence[Mapping[str, ParameterValue]]
    reps: int
    code: str
    stamp: str


def plan_missing(
    request: GridRequest, params: Sequence[Param], *, highest: int, under_way: Collection[str] = ()
) -> Missing:
    """What `request` lacks.

    A run that failed stays as it is and another is made; one that did not come to an end is made again in its folder.

    Args:
        params: What is there.
        highest: The highest number of a combination that is taken.
        under_way: Names of runs that somebody has or will have at work.
    """
    known = {param.values_hash: param for param in params}
    planned: list[tuple[int, int, Planned]] = []
    done = waiting = other = 0
    for position, values in enumerate(request.combinations):
        key = hash_values(values)
        if key not in known:
            highest += 1
            known[key] = Param(name=f"param_{highest:03d}", values_hash=key)
        param = known[key]
        good = [run for run in param.runs if run.state == "done"]
        busy = [run for run in param.runs if run.state == "open" and run.name in under_way]
        left = [run.name for run in param.runs if run.state == "open" and run.name not in under_way]
        done, waiting = done + len(good), waiting + len(busy)
        other += sum(run.code != request.code for run in good)
        last = max((run.number for run in param.runs), default=0)
        there = len(good) + len(busy)
        lacking = max(0, request.reps - there)
        fresh = [f"{param.name}/{request.stamp}_num{number}" for number in range(last + 1, last + 1 + lacking)]
        for rep, name in enumerate([*left, *fresh][:lacking], start=there):
            planned.append((rep, position, Planned(name=name, values=values)))
    planned.sort(key=lambda item: item[:2])
    return Missing(runs=tuple(run for *_, run in planned), done=done, under_way=waiting, other_code=other)
