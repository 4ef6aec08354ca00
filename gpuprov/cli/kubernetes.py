"""`gpuprov kubernetes`: manifests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.options import get_file

if TYPE_CHECKING:
    from gpuprov.cli.session import Session

_OLD: Final = "1.8"


@command(
    click.argument("file", metavar="COMPOSE", type=click.Path()),
    click.option("--name", metavar="NAME", help="Namespace.  [default: the file's name, or that of its folder]"),
    click.option("--for", "release", type=click.Choice([_OLD, "current"]), default="current", show_default=True,
                 help="Release of Kubernetes."),
)  # fmt: skip
def manifests(_session: Session, file: str, name: str | None, release: str) -> Result:
    """Print manifests of Kubernetes for the services of a docker compose file.

    Services keep their names. Those that request GPUs run on nodes with the label gpuprov.gate=true. No cluster is
    asked, and nothing is applied.
    """
    from gpuprov.render.kubernetes import render_manifests, write_manifests
    from gpuprov.shapes.compose import Manifests
    from gpuprov.spec.compose_file import read_stack

    stack = read_stack(get_file(file), os.environ, name=name)
    made = tuple(render_manifests(stack, old=release == _OLD))
    return Result(document=Manifests(manifests=made), text=write_manifests(made).rstrip())
