"""The ids of jobs on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.parameters import COMPLETION_S
from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.shapes.choices import DEFAULT_CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable


def job_argument() -> Callable[[Any], Any]:
    """One job, handed on as `job`."""
    return click.argument(
        "job", metavar="ID", callback=lambda _context, _parameter, text: check_id(text), shell_complete=complete_jobs
    )


def jobs_argument() -> Callable[[Any], Any]:
    """One or more jobs, handed on as `ids`."""

    def check(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(check_id, texts)))

    return click.argument(
        "ids", metavar="IDS...", nargs=-1, required=True, callback=check, shell_complete=complete_jobs
    )


def complete_jobs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids of jobs that begin so, of the cluster that was typed, where it answers while somebody waits at a keyboard."""
    from gpuprov.lifecycle.find_controller import get_controller
    from gpuprov.machine.local import LocalHost
    from gpuprov.machine.survey import survey, survey_names

    cluster = context.params.get("cluster") or DEFAULT_CLUSTER
    engines = LocalHost().engines
    named = survey_names(engines, timeout_s=COMPLETION_S)
    doors = [door for door in engines if named.get(door.name)]  # the SDKs of the others are not loaded
    seen = survey(doors, lambda driver: get_controller(driver, cluster).list_jobs(), timeout_s=COMPLETION_S)
    return [job.id for found in seen.answers.values() for job in found.jobs if job.id.startswith(incomplete)]


def check_id(text: str) -> str:
    """Return the id if a job can have it.

    Raises:
        UsageError: It cannot be one.
    """
    from gpuprov.shapes.jobs import is_job_id

    if not is_job_id(text):
        raise UsageError(
            f"{excerpt(repr(text), 80)} is not the id of a job",
            evidence="allowed: 7, or 7.3 for run 3 of it",
            fix="list the jobs: gpuprov jobs",
        )
    return text


def check_submission(text: str) -> str:
    """Return the id if a submission can have it.

    Raises:
        UsageError: It cannot be one, or is that of one run.
    """
    if "." in check_id(text):
        raise UsageError(
            "a job follows all runs of another one",
            evidence=f"{text} is one run",
            fix=f"name the submission: --after {text.partition('.')[0]}",
        )
    return text
