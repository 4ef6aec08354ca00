"""In a process of its own: runs a part of a run on the device that this process sees.

What the user wrote is executed here, and nowhere else.
"""

from __future__ import annotations

import importlib
import math
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.anneal import MOST_TOLD, AnnealPart, Failure, PartProgress
from gpuprov.shapes.base import encode
from gpuwork.anneal.division import agree, get_share
from gpuwork.anneal.model_file import read_model
from gpuwork.anneal.order import PARTS, read_annealed_run
from gpuwork.anneal.part_record import FAILURE, PROGRESS, RECORD, RESULT
from gpuwork.anneal.validator import find_model_faults
from gpuwork.errors import WorkError, refusal
from gpuwork.leash import die_with
from gpuwork.record import render
from gpuwork.shared_folder import write_file
from gpuwork.where import find_where

if TYPE_CHECKING:
    from gpuprov.shapes.anneal import Phase
    from gpuwork.anneal.chains import ChainRun, Chains
    from gpuwork.anneal.order import AnnealedRun

_TELL_S: Final = 0.5
_MEASURE_S: Final = 1.0
_MOST_MEASURED: Final = 65_536  # chains
_MOST_MESSAGE: Final = 20_000
_MOST_NAME: Final = 300


def main(folder: str, number: str, parent: str) -> None:
    """Run a part and leave its result, or why there is none, in its folder.

    Args:
        folder: Of the run.
        number: Of the part.
        parent: The id of the process that started this one: when it dies, so does this one.
    """
    die_with(int(parent))
    part = Path(folder) / PARTS / number
    try:
        _run_part(Path(folder), int(number), part)
    except Exception as error:  # noqa: BLE001  (numba, the driver and the user's code raise any)
        words = str(error) if isinstance(error, WorkError) else traceback.format_exc()
        told = Failure(
            type="refused" if isinstance(error, WorkError) else "error",
            exception=type(error).__name__[:_MOST_NAME],
            message=words[-_MOST_MESSAGE:].encode(errors="replace").decode(),
        )
        write_file(part / FAILURE, f"{encode(told).decode()}\n")
        sys.stderr.write(f"{words}\n{_last_line(error)}\n")
        sys.exit(1)


def _last_line(error: Exception) -> str:
    """What the reason of a job that failed shows."""
    if isinstance(error, WorkError):
        return f"{error.what}: {error.evidence}".replace("\n", " ")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


class _Progress:
    """Tells how far the part is, not too often."""

    def __init__(self, part: Path) -> None:
        self._part = part
        self._told = -math.inf

    def phase(self, name: Phase) -> None:
        """A phase begins."""
        self._write(name, 0, math.nan)

    def step(self, step: int, best: float) -> None:
        """Chains run."""
        if time.monotonic() - self._told >= _TELL_S:
            self._write("run", step, best)

    def _write(self, phase: Phase, step: int, best: float) -> None:
        told = PartProgress(phase=phase, step=step, best=best if math.isfinite(best) else None)
        write_file(self._part / PROGRESS, encode(told).decode(), durable=False)
        self._told = time.monotonic()


def _run_part(folder: Path, number: int, part: Path) -> None:
    run = read_annealed_run(folder)
    progress = _Progress(part)
    progress.phase("compile")
    chain_run = _compile(run)
    if run.order.parts > 1:
        progress.phase("divide")
        first, chains = _divide(run, number, chain_run)
    else:
        first, chains = get_share(run, number)
    progress.phase("run")
    began = time.monotonic()
    found = chain_run.run(first=first, chains=chains, tell=progress.step)
    seconds = time.monotonic() - began
    progress.phase("write")
    _write(run, part, found, seconds)


def _compile(run: AnnealedRun) -> ChainRun:
    model, faults = read_model(run.model)
    if model is not None:
        faults += find_model_faults(model)
    if model is None or faults:
        raise refusal(faults, of="the model", page="docs/anneal.md describes a model")
    # Imported here, as importing numba takes a second and decides between GPU and simulator
    chains = importlib.import_module("gpuwork.anneal.chains")
    compiled = importlib.import_module("gpuwork.anneal.compiled")
    made: ChainRun = chains.ChainRun(compiled.make_functions(model, path=str(run.model)), run.order.settings)
    made.compile()
    return made


def _divide(run: AnnealedRun, number: int, chain_run: ChainRun) -> tuple[int, int]:
    together = run.order.settings.replicas or 1
    share = math.ceil(run.order.settings.thread_count / run.order.parts / together) * together
    rate = chain_run.measure(chains=min(share, _MOST_MEASURED // together * together), limit_s=_MEASURE_S)
    return agree(run, number, rate)


def _write(run: AnnealedRun, part: Path, found: Chains, seconds: float) -> None:
    backend = importlib.import_module("gpuwork.anneal.backend")
    result = importlib.import_module("gpuwork.anneal.result")
    troubles = importlib.import_module("gpuwork.anneal.troubles").find_troubles(found, run.order.settings)
    where = find_where()
    facts: dict[str, Any] = backend.device_facts()
    whole = result.result_of(found)
    result.write_result(part / RESULT, whole)
    record = AnnealPart(
        first=found.first,
        chains=len(found.values),
        node=where.node,
        gpus=where.gpus,
        device=facts["device"],
        simulated=facts["simulated"] or where.simulated,
        block=found.block,
        rate=found.rate,
        steps=int(found.steps.max()),
        best=None if whole.best is None else float(found.values[whole.best]),
        seconds=seconds,
        errors=sum(trouble.kind == "error" for trouble in troubles),
        warnings=sum(trouble.kind == "warning" for trouble in troubles),
        troubles=tuple(troubles[:MOST_TOLD]),
    )
    write_file(part / RECORD, render(record))
