"""Annealing, as `anneal check` and `anneal run` tell it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gpuprov.documents.envelope import document

if TYPE_CHECKING:
    from gpuprov.planes.work.anneal_answers import Annealed


def anneal_checked_document(*, host: str) -> dict[str, Any]:
    """That nothing is wrong."""
    return document("anneal-checked", host=host, faults=[])


def anneal_document(annealed: Annealed, *, cluster: str | None, host: str) -> dict[str, Any]:
    """What was run, and what it found."""
    runs = []
    for run in annealed.runs:
        told = asdict(run)
        del told["drawn"]
        parts = [{**part, "gpus": list(part["gpus"])} for part in told["parts"]]
        state = None if run.best_state is None else list(run.best_state)
        runs.append({**told, "best_state": state, "troubles": list(told["troubles"]), "parts": parts})
    return document(
        "anneal-run",
        host=host,
        cluster=cluster,
        job=annealed.job,
        folder=None if annealed.folder is None else str(annealed.folder),
        exit_code=annealed.exit_code,
        runs=runs,
    )
