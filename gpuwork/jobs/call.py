"""In a process of its own: calls the function of a frozen project that an order names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from gpuwork.jobs.store import read_submission


def main(folder: str, number: str) -> None:
    """Call the function of a submission with the arguments of a run."""
    submission = read_submission(Path(folder))
    order = submission.order
    assert order.function is not None  # noqa: S101  (else this is not started)
    module, _, name = order.function.partition(":")
    sys.path[:0] = [str(submission.copy)]
    getattr(importlib.import_module(module), name)(**order.arguments_of(int(number)))
