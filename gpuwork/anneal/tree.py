"""Results of parts, merged two by two up to that of the whole run; those of the parts stay.

Whoever ends a part merges upwards as far as the other halves are there. What is still missing is merged by `merge`.
"""

from __future__ import annotations

import math
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import numpy as np

from gpuprov.shapes.anneal import BEST_FILE, AnnealBest
from gpuprov.shapes.base import encode
from gpuwork.anneal.arrays_file import write_arrays
from gpuwork.anneal.part_record import RESULT, read_record
from gpuwork.anneal.result import merge_results, read_result, write_result
from gpuwork.anneal.status import REASONS
from gpuwork.errors import Elsewhere, StoreError
from gpuwork.shared_folder import make_folder, only_one, write_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuwork.anneal.order import AnnealedRun
    from gpuwork.anneal.result import Result

TREE: Final = "tree"
BEST: Final = "best"
ALL: Final = "all"
TRACE: Final = "trace"
TRACE_KINDS: Final = {"sampled_steps": ("i", 1), "traced_chains": ("i", 1), "trace": ("f", 2)}
BEST_KINDS: Final = {"values": ("f", 1), "states": ("f", 2), "chains": ("i", 1)}


def climb(run: AnnealedRun, part: int) -> None:
    """Merge upwards from a part that has ended, as long as the other half is there and nobody else is at it.

    Raises:
        StoreError: A result was changed, or cannot be written.
    """
    with suppress(Elsewhere):  # whoever is at it goes on upwards
        for level in range(1, _height(run) + 1):
            place = part >> level
            if not all(_exists(run, level - 1, child) for child in _children(run, level, place)):
                return
            _make(run, level, place, patience_s=0)
        _write_whole(run, patience_s=0)


def merge_all(run: AnnealedRun) -> None:
    """Merge all parts, unless that is done.

    Raises:
        StoreError: Some have no result, or it was changed.
    """
    missing = [str(part) for part in range(run.order.parts) if read_record(run.part(part)) is None]
    if missing:
        raise StoreError(
            f"{len(missing)} of {run.order.parts} parts of {run.order.name} have no result",
            evidence=f"parts {', '.join(missing[:20])}{', ...' if len(missing) > 20 else ''}; the others are kept",  # noqa: PLR2004
            fix="run the missing parts again, then merge again",
        )
    patience_s = float(run.order.settings.merge_limit_s)  # who else merges has as long
    for level in range(1, _height(run) + 1):
        for place in range(_width(run, level)):
            _make(run, level, place, patience_s=patience_s)
    _write_whole(run, patience_s=patience_s)


def is_merged(run: AnnealedRun) -> bool:
    """Whether the whole result is there."""
    return (run.folder / f"{BEST}.npz").exists() and (run.folder / f"{ALL}.npz").exists()


def _height(run: AnnealedRun) -> int:
    return (run.order.parts - 1).bit_length()


def _width(run: AnnealedRun, level: int) -> int:
    return -(-run.order.parts >> level)


def _children(run: AnnealedRun, level: int, place: int) -> Iterator[int]:
    """The one or two nodes below one."""
    for child in (2 * place, 2 * place + 1):
        if child < _width(run, level - 1):
            yield child


def _path(run: AnnealedRun, level: int, place: int) -> Path:
    return run.part(place) / RESULT if level == 0 else run.folder / TREE / f"{level}-{place}.npz"


def _exists(run: AnnealedRun, level: int, place: int) -> bool:
    return read_record(run.part(place)) is not None if level == 0 else _path(run, level, place).exists()


def _make(run: AnnealedRun, level: int, place: int, *, patience_s: float) -> None:
    """Merge the nodes below one; nothing is done if it is there."""
    with _alone_at(run, f"{level}-{place}", patience_s):
        if _exists(run, level, place):
            return
        found = [_read(run, level - 1, child) for child in _children(run, level, place)]
        try:
            merged = found[0] if len(found) == 1 else merge_results(*found)
        except ValueError as error:
            raise StoreError(
                f"results of {run.order.name} cannot be merged", evidence=str(error), fix=f"ls -lR {run.folder}"
            ) from error
        write_result(_path(run, level, place), merged)


@contextmanager
def _alone_at(run: AnnealedRun, what: str, patience_s: float) -> Iterator[None]:
    """Hold the lock of a piece of the tree for the block.

    Raises:
        Elsewhere: Another process is at it.
        StoreError: It cannot be written.
    """
    tree = run.folder / TREE
    try:
        make_folder(tree)
        with only_one(
            tree, name=f"merge {what} of {run.order.name}", log=tree, lock=f"{what}.lock", patience_s=patience_s
        ):
            yield
    except OSError as error:
        raise StoreError("a merged result cannot be written", evidence=str(error), fix=f"df -h {tree}") from error


def _read(run: AnnealedRun, level: int, place: int) -> Result:
    path = _path(run, level, place)
    try:
        result = read_result(path)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"a result of {run.order.name} cannot be read", evidence=f"{path} {error}", fix=f"ls -l {path}"
        ) from error
    return result


def _write_whole(run: AnnealedRun, *, patience_s: float) -> None:
    """The files of the whole run, unless they are there."""
    with _alone_at(run, "whole", patience_s):
        if is_merged(run):
            return
        result = _read(run, _height(run), 0)
        if not np.array_equal(result.chains, np.arange(run.order.settings.thread_count)):
            raise StoreError(
                f"the results of {run.order.name} do not belong to its chains",
                evidence=f"{len(result.chains)} chains, {run.order.settings.thread_count} were asked for",
                fix=f"ls -lR {run.folder}",
            )
        records = [read_record(run.part(part)) for part in range(run.order.parts)]
        simulated = any(record.simulated for record in records if record)
        write_whole(run.folder, result, best_of(run.order.name, result, simulated=simulated))


def best_of(name: str, result: Result, *, simulated: bool) -> AnnealBest:
    """The best of all chains of a run; nulls where none has a value."""
    place = result.best
    if place is None:
        return AnnealBest(name=name, value=None, chain=None, steps=None, state=None, simulated=simulated)
    numbers = map(float, result.states[place])
    return AnnealBest(
        name=name,
        value=float(result.values[place]),
        chain=int(result.chains[place]),
        steps=int(result.steps[place]),
        state=tuple(number if math.isfinite(number) else None for number in numbers),
        simulated=simulated,
    )


def write_whole(folder: Path, result: Result, best: AnnealBest) -> None:
    """`all.npz`, `trace.npz`, `best.json`, and `best.npz`, which is there once the others are."""
    reasons = np.array(REASONS)[result.status]
    write_arrays(
        folder / f"{ALL}.npz",
        {
            "values": result.values,
            "states": result.states,
            "steps": result.steps,
            "stopped": reasons,
        },
    )
    write_arrays(folder / f"{TRACE}.npz", {name: getattr(result, name) for name in TRACE_KINDS})
    write_file(folder / BEST_FILE, f"{encode(best).decode()}\n")
    place = result.best
    chosen = [] if place is None else [place]
    write_arrays(
        folder / f"{BEST}.npz",
        {"values": result.values[chosen], "states": result.states[chosen], "chains": result.chains[chosen]},
    )


def write_texts(run: AnnealedRun) -> None:
    """The same as text: a line for each chain with its number, its value and its state."""
    result = _read(run, _height(run), 0)
    place = result.best
    for name, places in ((ALL, range(len(result.chains))), (BEST, () if place is None else (place,))):
        lines = [
            " ".join(
                [
                    str(result.chains[one]),
                    *(repr(float(number)) for number in (result.values[one], *result.states[one])),
                ]
            )
            for one in places
        ]
        write_file(run.folder / f"{name}.txt", "".join(f"{line}\n" for line in lines))
