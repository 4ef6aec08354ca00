"""The ids of jobs on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable


def job_argument() -> Callable[[Any], Any]:
    """One job, handed on as `job`."""
    return click.argument("job", metavar="ID", callback=lambda _context, _parameter, text: check_id(text))


def jobs_argument() -> Callable[[Any], Any]:
    """One or more jobs, handed on as `ids`."""

    def check(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(check_id, texts)))

    return click.argument("ids", metavar="IDS...", nargs=-1, required=True, callback=check)


def check_id(text: str) -> str:
    """Return the id if a job can have it.

    Raises:
        UsageError: It cannot be one.
    """
    from gpuprov.planes.job_answers import JOB_ID

    if not JOB_ID.fullmatch(text):
        raise UsageError(
            f"{excerpt(repr(text), 80)} is not the id of a job",
            evidence="allowed: 7, or 7.3 for run 3 of it",
            fix="list the jobs: gpuprov jobs",
        )
    return text
