"""How far runs are and what they found, as one document; read with limits, as jobs can write there too."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from gpuwork.anneal.arrays_file import read_arrays
from gpuwork.anneal.part_record import read_failure, read_progress, read_record
from gpuwork.anneal.tree import BEST, BEST_KINDS, TRACE, TRACE_KINDS, is_merged
from gpuwork.shared_folder import is_free
from gpuwork.units import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpuwork.anneal.order import AnnealedRun
    from gpuwork.anneal.part_record import PartRecord

MOST_SHOWN: Final = 256 * MIB
MOST_TROUBLES: Final = 20
MOST_STATE: Final = 1000
MOST_SERIES: Final = 64
MOST_DRAWN: Final = 1e300
_REASON: Final = 500


def describe_run(run: AnnealedRun, *, with_series: bool = False) -> dict[str, Any]:
    """A run.

    Args:
        run: Which.
        with_series: Also the best values over the steps, of 64 chains at most.
    """
    records = [read_record(run.part(number)) for number in range(run.parts)]
    parts = [_describe_part(run, number, record) for number, record in enumerate(records)]
    states = [part["state"] for part in parts]
    merged = is_merged(run)
    troubles = [trouble for record in records if record for trouble in record.troubles]
    bests = [part["best"] for part in parts if part["best"] is not None]
    told: dict[str, Any] = {
        "name": run.name,
        "folder": str(run.folder),
        "state": _state(states, merged=merged),
        "chains": run.settings.thread_count,
        "max_steps": run.settings.max_steps,
        "simulated": any(record.simulated for record in records if record),
        "best": min(bests) if bests else None,
        "best_chain": None,
        "best_state": None,
        "errors": sum(record.errors for record in records if record),
        "warnings": sum(record.warnings for record in records if record),
        "troubles": [asdict(trouble) for trouble in troubles[:MOST_TROUBLES]],
        "parts": parts,
        "series": [],
    }
    if merged:
        told |= _describe_result(run.folder, with_series=with_series)
    return told


def _state(states: Sequence[str], *, merged: bool) -> str:
    if merged:
        return "done"
    return next((state for state in ("failed", "running", "waiting") if state in states), "merging")


def _describe_part(run: AnnealedRun, number: int, record: PartRecord | None) -> dict[str, Any]:
    part = run.part(number)
    progress, failure = read_progress(part), read_failure(part)
    told: dict[str, Any] = {
        "part": number, "state": "waiting", "phase": None, "step": 0, "best": None, "first": None, "chains": None,
        "node": None, "gpus": [], "device": None, "simulated": False, "block": None, "rate": None, "seconds": None,
        "reason": None,
    }  # fmt: skip
    if progress is not None:
        told |= {"phase": progress.phase, "step": progress.step, "best": progress.best}
    if record is not None:
        names = ("first", "chains", "node", "device", "simulated", "block", "rate", "seconds", "best")
        told |= {name: getattr(record, name) for name in names}
        return told | {"state": "done", "phase": None, "step": record.steps, "gpus": list(record.gpus)}
    if failure is not None:
        lines = [line for line in failure.message.strip().splitlines() if line.strip()]
        return told | {"state": "failed", "reason": f"{failure.exception}: {lines[-1] if lines else ''}"[:_REASON]}
    if progress is not None and not is_free(part / ".lock"):
        return told | {"state": "running"}
    return told | {"best": None}


def _describe_result(folder: Path, *, with_series: bool) -> dict[str, Any]:
    """The best chain of a whole run."""
    try:
        best = read_arrays(folder / f"{BEST}.npz", BEST_KINDS, most_bytes=MOST_SHOWN)
        told: dict[str, Any] = {"best": None}
        if len(best["values"]):
            told = {
                "best": float(best["values"][0]),
                "best_chain": int(best["chains"][0]),
                "best_state": [float(number) for number in best["states"][0][:MOST_STATE]],
            }
            if not all(map(math.isfinite, (told["best"], *told["best_state"]))):
                raise ValueError("has what is no number")  # noqa: TRY301
        if with_series:
            told["series"] = _series(folder)
    except (OSError, ValueError):
        return {}
    return told


def _series(folder: Path) -> list[dict[str, Any]]:
    arrays = read_arrays(folder / f"{TRACE}.npz", TRACE_KINDS, most_bytes=MOST_SHOWN)
    steps = [int(step) for step in arrays["sampled_steps"]]
    return [
        {
            "chain": int(chain),
            "points": [
                [step, float(value)]
                for step, value in zip(steps, arrays["trace"][:, column], strict=True)
                if abs(float(value)) <= MOST_DRAWN  # NaN is not
            ],
        }
        for column, chain in enumerate(arrays["traced_chains"][:MOST_SERIES])
    ]
