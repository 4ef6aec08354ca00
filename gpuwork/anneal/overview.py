"""How far runs are and what they found; read with limits, as jobs can write there too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.anneal import ChainSeries, Part, Run
from gpuprov.shapes.base import changed
from gpuprov.shapes.limits import MIB
from gpuwork.anneal.arrays_file import read_arrays
from gpuwork.anneal.part_record import read_failure, read_progress, read_record
from gpuwork.anneal.tree import BEST, BEST_KINDS, TRACE, TRACE_KINDS, is_merged
from gpuwork.shared_folder import is_free

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuprov.shapes.anneal import AnnealPart, RunState
    from gpuwork.anneal.order import AnnealedRun

MOST_SHOWN: Final = 256 * MIB
MOST_TROUBLES: Final = 20
MOST_STATE: Final = 1000
MOST_SERIES: Final = 64
MOST_DRAWN: Final = 1e300
_REASON: Final = 500


def describe_run(run: AnnealedRun, *, with_series: bool = False) -> Run:
    """A run.

    Args:
        with_series: Also the best values over the steps, of 64 chains at most.
    """
    order = run.order
    records = [read_record(run.part(number)) for number in range(order.parts)]
    ended = [record for record in records if record]
    parts = tuple(_describe_part(run, number, record) for number, record in enumerate(records))
    merged = is_merged(run)
    troubles = [trouble for record in ended for trouble in record.troubles]
    told = Run(
        name=order.name,
        folder=str(run.folder),
        state=_state([part.state for part in parts], merged=merged),
        chains=order.settings.thread_count,
        max_steps=order.settings.max_steps,
        simulated=any(record.simulated for record in ended),
        best=min((part.best for part in parts if part.best is not None), default=None),
        errors=sum(record.errors for record in ended),
        warnings=sum(record.warnings for record in ended),
        troubles=tuple(troubles[:MOST_TROUBLES]),
        parts=parts,
        series=(),
    )
    return _with_result(told, run.folder, with_series=with_series) if merged else told


def _state(states: Sequence[str], *, merged: bool) -> RunState:
    if merged:
        return "done"
    known: tuple[RunState, ...] = ("failed", "running", "waiting")
    return next((state for state in known if state in states), "merging")


def _describe_part(run: AnnealedRun, number: int, record: AnnealPart | None) -> Part:
    part = run.part(number)
    progress, failure = read_progress(part), read_failure(part)
    if record is not None:
        return Part(
            part=number, state="done", step=record.steps, best=record.best, first=record.first, chains=record.chains,
            node=record.node, gpus=record.gpus, device=record.device, simulated=record.simulated, block=record.block,
            rate=record.rate, seconds=record.seconds,
        )  # fmt: skip
    told = Part(part=number)
    if progress is not None:
        told = changed(told, phase=progress.phase, step=progress.step)
    if failure is not None:
        lines = [line for line in failure.message.strip().splitlines() if line.strip()]
        reason = f"{failure.exception}: {lines[-1] if lines else ''}"[:_REASON]
        return changed(told, state="failed", best=progress.best if progress else None, reason=reason)
    if progress is not None and not is_free(part / ".lock"):
        return changed(told, state="running", best=progress.best)
    return told


def _with_result(told: Run, folder: Path, *, with_series: bool) -> Run:
    """With the best chain of a whole run."""
    try:
        best = read_arrays(folder / f"{BEST}.npz", BEST_KINDS, most_bytes=MOST_SHOWN)
        series = _series(folder) if with_series else ()
        if not len(best["values"]):
            return changed(told, best=None, series=series)
        value, state = float(best["values"][0]), tuple(float(number) for number in best["states"][0][:MOST_STATE])
        if not all(map(math.isfinite, (value, *state))):
            return told
        return changed(told, best=value, best_chain=int(best["chains"][0]), best_state=state, series=series)
    except (OSError, ValueError):
        return told


def _series(folder: Path) -> tuple[ChainSeries, ...]:
    arrays = read_arrays(folder / f"{TRACE}.npz", TRACE_KINDS, most_bytes=MOST_SHOWN)
    steps = [int(step) for step in arrays["sampled_steps"]]
    return tuple(
        ChainSeries(
            chain=int(chain),
            points=tuple(
                (step, float(value))
                for step, value in zip(steps, arrays["trace"][:, column], strict=True)
                if abs(float(value)) <= MOST_DRAWN  # NaN is not
            ),
        )
        for column, chain in enumerate(arrays["traced_chains"][:MOST_SERIES])
    )
