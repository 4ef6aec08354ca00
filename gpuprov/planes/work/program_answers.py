"""What the program `gpuwork.programs` in a node answers, read strictly: root there can say anything in its place."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.answer_kinds import (
    fields_of,
    is_bool,
    items_of,
    matches,
    number_in,
    or_none,
    pick,
    text_of,
)
from gpuprov.planes.work.work_place import PROGRAMS
from gpuprov.shapes.base import read
from gpuprov.shapes.error import Error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.shapes.error import ErrorParts

PREPARED: Final = "gpuprov.program-prepared/v1"
LOOKED: Final = "gpuprov.program-progress/v1"
PAGES: Final = "gpuprov.program-pages/v1"
LISTED: Final = "gpuprov.programs/v1"
REMOVED: Final = "gpuprov.program-removed/v1"
RESULT: Final = "gpuprov.program-result/v1"
RUNS: Final = f"{PROGRAMS}/.runs"
_MANY: Final = 2**62
_MOST_WORKERS: Final = 10_000
_MOST_POINTS: Final = 5000
_HUGE: Final = 1e300  # a chart adds numbers up
_HASH: Final = matches(re.compile(r"[0-9a-f]{64}"))
_NAME: Final = matches(re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII))
_RUN: Final = matches(re.compile(rf"{RUNS}/run-[a-z0-9_]{{1,32}}", re.ASCII))
_MOMENT: Final = matches(re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII))
_TARGET: Final = matches(re.compile(r"standin|sm_[0-9]{2,3}", re.ASCII))


@dataclass(frozen=True, kw_only=True)
class ProgramRow:
    """A registered program."""

    hash: str
    name: str
    version: str
    registered: str
    built_for: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RunPage:
    """Where Dask shows a run to the node that leads it alone."""

    node: str
    port: int


@dataclass(frozen=True, kw_only=True)
class RunLook:
    """A run as it is.

    Attributes:
        workers: How many work on it; None before it begins.
        iterations: How many are done.
        result: The document, once it has ended well.
        complaint: Why it failed.
    """

    workers: int | None
    iterations: int
    result: Mapping[str, Any] | None
    complaint: ErrorParts | None


@dataclass(frozen=True, kw_only=True)
class ProgramRun:
    """A run that has ended well.

    Attributes:
        id: Of its jobs; None on this machine.
        result: The document of gpuwork.programs.
    """

    id: str | None
    result: Mapping[str, Any]


def read_prepared_run(told: Mapping[str, Any]) -> str:
    """The folder of a run in the nodes; raises ValueError for anything else."""
    run, _, _ = fields_of(told, PREPARED, {"run": _RUN, "hash": _HASH, "name": _NAME})
    return str(run)


def read_pages(told: Mapping[str, Any]) -> RunPage | None:
    """The page of a run that goes on; raises ValueError for anything else."""
    (page,) = fields_of(told, PAGES, {"page": or_none(lambda value: isinstance(value, dict))})
    return None if page is None else RunPage(**_as_page(page))


def read_programs(told: Mapping[str, Any]) -> tuple[ProgramRow, ...]:
    """All programs; raises ValueError for anything else."""
    (rows,) = fields_of(told, LISTED, {"programs": items_of(lambda row: isinstance(row, dict))})
    return tuple(map(_read_row, rows))


def read_removed(told: Mapping[str, Any]) -> ProgramRow:
    """The program that was removed; raises ValueError for anything else."""
    (row,) = fields_of(told, REMOVED, {"program": lambda row: isinstance(row, dict)})
    return _read_row(row)


def _read_row(told: object) -> ProgramRow:
    kinds = {"hash": _HASH, "name": _NAME, "version": _NAME, "registered": _MOMENT, "built_for": items_of(_TARGET)}
    found, name, version, registered, built_for = pick(told, kinds)
    return ProgramRow(hash=found, name=name, version=version, registered=registered, built_for=tuple(built_for))


def read_run_look(told: Mapping[str, Any]) -> RunLook:
    """A run as it is; raises ValueError for anything else."""
    anything = or_none(lambda value: isinstance(value, dict))
    progress, end = fields_of(told, LOOKED, {"progress": anything, "end": anything})
    workers, iterations = None, 0
    if progress is not None:
        kinds = {"workers": number_in(0, _MOST_WORKERS), "rows": number_in(0, _MANY), "iterations": number_in(0, _MANY)}
        workers, _, iterations = pick(progress, kinds)
    complaint = read(Error, end).error if end is not None and end.get("schema") == "gpuprov.error/v1" else None
    return RunLook(
        workers=workers,
        iterations=iterations,
        result=None if end is None or complaint is not None else read_program_result(end),
        complaint=complaint,
    )


def _as_page(told: Mapping[str, Any]) -> dict[str, Any]:
    node, port = pick(told, {"node": matches(re.compile(r"[a-z0-9][a-z0-9-]{0,62}")), "port": number_in(1, 65535)})
    return {"node": node, "port": port}


def read_program_result(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result of a run, as it is; raises ValueError where it is none."""
    count = number_in(0, _MANY)
    keys = {
        "program": lambda value: bool(pick(value, {"hash": _HASH, "name": _NAME, "version": _NAME})),
        "iterations": count, "seconds": _is_number, "rows": count, "moved": count, "simulated": is_bool,
        "workers": items_of(_is_worker), "result": lambda _: True, "chart": or_none(_is_chart),
    }  # fmt: skip
    fields_of({name: value for name, value in told.items() if name != "version"}, RESULT, keys)
    return told


def _is_worker(told: object) -> bool:
    kinds = {
        "number": number_in(0, _MOST_WORKERS), "node": text_of(255), "gpu": or_none(text_of(100)),
        "name": or_none(text_of(300)), "built_for": _TARGET, "rows": number_in(0, _MANY),
    }  # fmt: skip
    return bool(pick(told, kinds))


def _is_chart(told: object) -> bool:
    title, groups = pick(told, {"title": text_of(200), "groups": items_of(_is_group)})
    return title is not None and sum(len(group["points"]) for group in groups) <= _MOST_POINTS


def _is_group(told: object) -> bool:
    return bool(pick(told, {"label": text_of(100), "points": items_of(_is_point), "marked": is_bool}))


def _is_point(told: object) -> bool:
    return isinstance(told, list) and len(told) == 2 and all(map(_is_number, told))  # noqa: PLR2004


def _is_number(told: object) -> bool:
    return type(told) in (int, float) and math.isfinite(told) and abs(told) < _HUGE  # type: ignore[arg-type]
