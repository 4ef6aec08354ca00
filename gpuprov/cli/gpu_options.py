"""Options by which GPUs are asked for, and how long one waits for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cluster.waiting_for_gpus import Patience

_DURATION = re.compile(r"([0-9]{1,7})(s|m|h)?", re.ASCII)
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600}
LONGEST_WAIT_S: Final = 7 * 86400


mount_option: Callable[[Any], Any] = click.option(
    "--mount", "mounts", multiple=True, metavar="SOURCE:TARGET[:ro]", help="Mount a folder of the host; repeatable."
)


def gpu_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--gpus`, `--gpu-memory`, `--gpu-model`, `--sharing`, `--exclusive`, `--env` and `--wait`."""
    for option in reversed(
        (
            click.option(
                "--gpus",
                metavar="WHICH",
                help="A count, all, none, or a list of indexes (0,1), UUIDs, PCI addresses or MIG instances (0:1).",
            ),
            click.option("--gpu-memory", metavar="SIZE", help="Minimum memory of each GPU, such as 20GiB."),
            click.option("--gpu-model", metavar="NAME", help="A part of the model name of each GPU."),
            click.option(
                "--sharing", type=click.Choice(["shared", "exclusive"]), help="Whether others may hold the same GPUs."
            ),
            click.option("--exclusive", "sharing", flag_value="exclusive", help="Request GPUs for exclusive use."),
            click.option(
                "-e",
                "--env",
                "variables",
                multiple=True,
                metavar="KEY=VALUE",
                help="Set an environment variable; repeatable.",
            ),
            click.option(
                "--wait",
                metavar="TIME",
                callback=_duration,
                help="Wait this long for GPUs that are taken, such as 10m.  [default: do not wait]",
            ),
        )
    ):
        function = option(function)
    return function


def _duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    found = _DURATION.fullmatch(text.strip())
    seconds = int(found[1]) * _UNITS_S[found[2] or "s"] if found else -1
    if not 0 < seconds <= LONGEST_WAIT_S:
        raise UsageError(
            f"--wait {text!r} is not a valid duration",
            evidence="allowed: a whole number with s, m or h, above 0 and up to 168h",
            fix="--wait 10m",
        )
    return float(seconds)


def memory_bytes(text: str | None) -> int | None:
    """What `--gpu-memory` says."""
    from gpuprov.gpu.order import parse_memory

    return None if text is None else parse_memory(text)


def patience(wait_s: float | None) -> Patience:
    """How long `--wait` says."""
    from gpuprov.cluster.waiting_for_gpus import Patience

    return Patience(wait_s=wait_s)
