"""`--drain` and `--force`: what becomes of jobs on nodes that a verb stops, restarts or removes."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprov.cli.parameters import duration

if TYPE_CHECKING:
    from collections.abc import Callable

DRAIN: Final = "1h"


def job_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--drain` and `--force`, handed on as a JobsPolicy named `policy`."""

    @functools.wraps(function)
    def command(*arguments: Any, drain: float | None, force: bool, **more: Any) -> Any:  # noqa: ANN401 - click's own
        from gpuprov.lifecycle.leaving import JobsPolicy

        return function(*arguments, policy=JobsPolicy(force=force, drain_s=drain), **more)

    drain = click.option(
        "--drain",
        is_flag=False,
        flag_value=DRAIN,
        metavar="[TIME]",
        is_eager=True,  # before NODES is missed: `--drain c000` takes the node for a time, and says so
        callback=_time,
        help=f"Start no more jobs on the nodes, and wait at most TIME, such as 30m, for running jobs to end.  "
        f"[default TIME: {DRAIN}]",
    )
    force = click.option("--force", is_flag=True, help="End the jobs on the nodes, and name them.")
    return drain(force(command))


def _time(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    return None if text is None else duration("--drain", text, fix=f"--drain {DRAIN}; names must come before it")
