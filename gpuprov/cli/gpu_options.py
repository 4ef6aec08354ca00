"""Options by which GPUs are asked for, and how long one waits for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprov.cli.options import duration
from gpuprov.core.errors import UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.spec.gpu_order import CRITERIA, read_criteria

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.gpu.waiting_for_gpus import Patience

_ENV: Final = "--env KEY=VALUE"
mount_option: Callable[[Any], Any] = click.option(
    "--mount", "mounts", multiple=True, metavar="SOURCE:TARGET[:ro]", help="Mount a folder of the host; repeatable."
)


_WHICH: Final = click.option(
    "--gpus",
    metavar="WHICH",
    help="A count, all, none, or a list of indexes (0,1), UUIDs, PCI addresses or MIG instances (0:1).",
)
_PER_NODE: Final = click.option("--gpus-per-node", type=int, metavar="N", help="Number of GPUs for each node.")
_CRITERIA: Final = tuple(click.option(one.option, metavar=one.metavar, help=one.help) for one in CRITERIA.values())
_EXCLUSIVE: Final = click.option(
    "--exclusive", "sharing", flag_value="exclusive", help="Request GPUs for exclusive use."
)


def _sharing(others: str) -> Callable[[Any], Any]:
    choice = click.Choice(["shared", "exclusive"])
    return click.option("--sharing", type=choice, help=f"Whether {others} may hold the same GPUs.")


def gpu_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What one node asks for in GPUs, `--env`, which may ask for some too, and `--wait`."""
    return _gpu_options(function, _variables)


def container_gpu_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a container; its variables are as they were typed."""
    return _gpu_options(function, None)


def _gpu_options(function: Callable[..., Any], variables: Callable[..., Any] | None) -> Callable[..., Any]:
    for option in reversed(
        (
            _WHICH,
            *_CRITERIA,
            _sharing("others"),
            _EXCLUSIVE,
            click.option(
                "-e",
                "--env",
                "variables",
                multiple=True,
                metavar="KEY[=VALUE]",
                callback=variables,
                help="Set an environment variable; without VALUE, to its value in this shell; repeatable.",
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


def cluster_gpu_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What each node of a cluster is to have of GPUs."""
    for option in reversed((_PER_NODE, *_CRITERIA, _sharing("other nodes"))):
        function = option(function)
    return function


def typed_gpus(typed: Mapping[str, Any]) -> GpuOrder:
    """What was typed of GPUs, of either kind."""
    per_node = typed.get("gpus", typed.get("gpus_per_node"))
    return GpuOrder(
        per_node=per_node, sharing=typed["sharing"], **read_criteria(typed, lambda criterion: criterion.option)
    )


def _duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    return None if text is None else duration("--wait", text, fix="--wait 10m")


def _variables(_context: click.Context, _parameter: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    """Each with its value: that of this process where none is given."""
    from gpuprov.spec.variables import FORM, find_variable_problems

    there = [text if "=" in text or text not in os.environ else f"{text}={os.environ[text]}" for text in texts]
    for index, message in find_variable_problems([text if "=" in text else f"{text}=" for text in there]):
        raise UsageError(f"--env: {message}", evidence=f"--env {excerpt(texts[index])}; allowed: {FORM}", fix=_ENV)
    for text in there:
        if "=" not in text:
            raise UsageError(
                f"--env {text}: it has no value, and {text} is not set here",
                evidence=f"without =, the value is that of this shell; allowed: {FORM}",
                fix=f"--env {text}=VALUE; or: export {text}",
            )
    return tuple(there)


def patience(wait_s: float | None) -> Patience:
    """How long `--wait` says."""
    from gpuprov.gpu.waiting_for_gpus import Patience

    return Patience(wait_s=wait_s)
