"""Models and configurations on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.spec.anneal_order import AnnealOrder


def files_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The files, and what is typed in place of what stands in them."""
    for decorate in (
        click.argument("models", metavar="MODEL...", nargs=-1, required=True, type=click.Path()),
        click.option(
            "--conf", "configurations", metavar="FILE", multiple=True, type=click.Path(),
            help="Settings, in YAML or HOCON; repeatable.",
        ),
        click.option("--chains", type=int, metavar="N", help="Number of chains, in place of thread_count."),
        click.option("--target", type=float, metavar="VALUE", help="Stop when a value is at or below this."),
    ):  # fmt: skip
        function = decorate(function)
    return function


def read_files(given: Mapping[str, Any]) -> AnnealOrder:
    """What was typed."""
    from gpuprov.spec.anneal_order import AnnealOrder, check_numbers

    check_numbers(given["chains"], given["target"])
    return AnnealOrder(
        models=tuple(Path(path).absolute() for path in given["models"]),
        configurations=tuple(Path(path).absolute() for path in given["configurations"]),
        chains=given["chains"],
        target=given["target"],
    )
