"""In a process of its own: calls the function of a frozen project that an order names."""

from __future__ import annotations

from pathlib import Path

from gpuwork.jobs.store import read_submission
from gpuwork.own_modules import import_own


def main(folder: str, number: str) -> None:
    """Call the function of a submission with the arguments of a run."""
    submission = read_submission(Path(folder))
    order = submission.order
    assert order.function is not None  # noqa: S101  (else this is not started)
    module, _, name = order.function.partition(":")
    getattr(import_own(module, str(submission.copy)), name)(**order.arguments_of(int(number)))
