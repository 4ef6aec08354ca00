"""What the program `gpuwork.anneal` answers, read strictly: root in the node can say anything in its place."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.answer_kinds import (
    fields_of,
    is_bool,
    is_list,
    items_of,
    matches,
    number_in,
    or_none,
    pick,
    text_of,
)
from gpuprov.planes.work.grid_answers import DrawnCombination

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuprov.planes.work.grid_answers import SeriesPoints

PREPARED: Final = "gpuprov.anneal-prepared/v1"
SHOWN: Final = "gpuprov.anneal-shown/v1"
SERIES: Final = "best value"
RUN_STATES: Final = ("done", "failed", "running", "waiting", "merging")
_PART_STATES: Final = ("done", "failed", "running", "waiting")
_MANY: Final = 10**15
_MOST_NUMBER: Final = 1e300
_NAME: Final = matches(re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII))
_GPU: Final = matches(re.compile(r"[A-Za-z0-9/-]{1,100}", re.ASCII))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True, kw_only=True)
class AnnealTrouble:
    """Something that is wrong with a chain."""

    chain: int
    step: int
    kind: str
    message: str


@dataclass(frozen=True, kw_only=True)
class AnnealPart:
    """Some chains of a run.

    Attributes:
        part: Its number.
        state: Whether it waits, runs, or how it ended.
        phase: What it does while it runs.
        step: At which step its chains were last seen.
        best: Their best value then.
        first: The number of the first of its chains, once it has ended.
        chains: How many it had.
        node: Where it ran.
        gpus: UUIDs of the GPUs that it saw.
        device: The name of the one that it used.
        simulated: Whether that was simulated.
        block: Threads of a block.
        rate: Steps of a chain in a second, of all its chains together.
        seconds: How long its chains ran.
        reason: Why it failed.
    """

    part: int
    state: str
    phase: str | None
    step: int
    best: float | None
    first: int | None
    chains: int | None
    node: str | None
    gpus: tuple[str, ...]
    device: str | None
    simulated: bool
    block: int | None
    rate: float | None
    seconds: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class AnnealRun:
    """A model that is annealed.

    Attributes:
        name: Of the model, and of the configuration where there are several.
        folder: Where everything of it is.
        state: How far it is.
        chains: How many it has.
        max_steps: Of each.
        simulated: Whether any part ran on a simulated device.
        best: The best value so far, or of all.
        best_chain: The number of the chain that had it, once all is merged.
        best_state: Its state, the first 1000 numbers.
        errors: How many chains have an error.
        warnings: How many have a warning.
        troubles: The first of these.
        parts: Into which its chains are divided.
        drawn: The best values over the steps, of 64 chains at most; None if nobody asked.
    """

    name: str
    folder: str
    state: str
    chains: int
    max_steps: int
    simulated: bool
    best: float | None
    best_chain: int | None
    best_state: tuple[float, ...] | None
    errors: int
    warnings: int
    troubles: tuple[AnnealTrouble, ...]
    parts: tuple[AnnealPart, ...]
    drawn: DrawnCombination | None


@dataclass(frozen=True, kw_only=True)
class Annealed:
    """What became of a run.

    Attributes:
        job: The id of its jobs; None on this machine.
        folder: Where the results are on this machine; None if there are none.
        exit_code: 0 if all parts ended and no chain has an error.
        runs: What was found.
    """

    job: str | None
    folder: Path | None
    exit_code: int
    runs: tuple[AnnealRun, ...]


_TROUBLE: Final = {
    "chain": number_in(0, _MANY),
    "step": number_in(0, _MANY),
    "kind": lambda value: value in ("error", "warning"),
    "message": text_of(1000),
}
_PART: Final = {
    "part": number_in(0, _MANY),
    "state": lambda value: value in _PART_STATES,
    "phase": or_none(text_of(20)),
    "step": number_in(0, _MANY),
    "best": or_none(_is_number),
    "first": or_none(number_in(0, _MANY)),
    "chains": or_none(number_in(1, _MANY)),
    "node": or_none(text_of(300)),
    "gpus": items_of(_GPU),
    "device": or_none(text_of(300)),
    "simulated": is_bool,
    "block": or_none(number_in(1, 1024)),
    "rate": or_none(_is_number),
    "seconds": or_none(_is_number),
    "reason": or_none(text_of(1000)),
}
_RUN: Final = {
    "name": _NAME,
    "folder": text_of(4096),
    "state": lambda value: value in RUN_STATES,
    "chains": number_in(1, _MANY),
    "max_steps": number_in(1, _MANY),
    "simulated": is_bool,
    "best": or_none(_is_number),
    "best_chain": or_none(number_in(0, _MANY)),
    "best_state": or_none(items_of(_is_number)),
    "errors": number_in(0, _MANY),
    "warnings": number_in(0, _MANY),
    "troubles": is_list,
    "parts": is_list,
    "series": is_list,
}


def read_annealing(told: Mapping[str, Any], folder: str) -> tuple[tuple[str, int], ...]:
    """The names of the runs that were prepared in a folder, and how many parts each has; raises ValueError."""
    there, runs, parts = fields_of(
        told, PREPARED, {"folder": text_of(4096), "runs": is_list, "parts": number_in(1, _MANY)}
    )
    found = [tuple(pick(run, {"name": _NAME, "parts": number_in(1, 10_000)})) for run in runs]
    if there != folder or not found or sum(count for _, count in found) != parts:
        raise ValueError(f"it prepared {parts} parts in {there[:100]!r}")
    return tuple((name, count) for name, count in found)


def read_anneal_runs(told: Mapping[str, Any]) -> tuple[AnnealRun, ...]:
    """How far runs are; raises ValueError for anything else."""
    (runs,) = fields_of(told, SHOWN, {"runs": is_list})
    return tuple(map(_read_run, runs))


def _read_run(told: object) -> AnnealRun:
    values = dict(zip(_RUN, pick(told, _RUN), strict=True))
    series = values.pop("series")
    state = values["best_state"]
    return AnnealRun(
        **{
            **values,
            "best_state": None if state is None else tuple(map(float, state)),
            "troubles": tuple(
                AnnealTrouble(**dict(zip(_TROUBLE, pick(one, _TROUBLE), strict=True))) for one in values["troubles"]
            ),
            "parts": tuple(map(_read_part, values["parts"])),
        },
        drawn=_read_series(values["name"], series) if series else None,
    )


def _read_part(told: object) -> AnnealPart:
    values = dict(zip(_PART, pick(told, _PART), strict=True))
    return AnnealPart(**{**values, "gpus": tuple(values["gpus"])})


def _read_series(name: str, told: list[object]) -> DrawnCombination:
    """As grids have theirs, so that one chart draws both."""
    chains = [pick(one, {"chain": number_in(0, _MANY), "points": is_list}) for one in told]
    points: tuple[SeriesPoints, ...] = tuple(tuple(map(_read_point, of_chain)) for _, of_chain in chains)
    return DrawnCombination(name=name, label=name, runs=len(chains), series={SERIES: points})


def _read_point(told: object) -> tuple[float, float]:
    if not isinstance(told, list) or len(told) != len(("step", "value")) or not all(map(_is_number, told)):
        raise ValueError("a point is not a step and a value")
    step, value = map(float, told)
    if abs(value) > _MOST_NUMBER:
        raise ValueError("a value is too large to be drawn")
    return step, value
