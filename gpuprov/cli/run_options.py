"""What each run of a submission gets, as options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.parameters import duration
from gpuprov.shapes.limits import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Callable

time_option: Callable[[Any], Any] = click.option(
    "--time",
    "time_limit",
    metavar="TIME",
    help="End a try after TIME, such as 90, 30m or 12h.  [default: jobs.time of the cluster's spec]",
)
retries_option: Callable[[Any], Any] = click.option(
    "--retries", type=int, default=0, metavar="N", help="Number of further tries after a run failed."
)
memory_option: Callable[[Any], Any] = click.option(
    "--memory",
    metavar="SIZE",
    help="Memory that a node must have for a run, such as 8GiB.  [default: jobs.memory of the cluster's spec]",
)


def parse_time_limit(text: str | None) -> int | None:
    """The seconds of `--time`.

    Raises:
        UsageError: It is no time, or too long.
    """
    return None if text is None else int(duration("--time", text, fix="--time 12h", most_s=LONGEST_S))
