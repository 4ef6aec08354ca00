"""The spec that `cluster up` and `cluster plan` work on: a file, else what is recorded, changed by flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from gpuprov.cli.engine import (
    DEFAULT_CLUSTER,
    engine_option,
    gpu_mode_option,
)
from gpuprov.cli.parameters import checked_cluster
from gpuprov.cli.roles import role_option

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.spec.models import ClusterSpec, GpuMode, Role, Sharing


def spec_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what is wanted."""
    for option in reversed(
        (
            click.option(
                "-f", "--file", type=click.Path(path_type=Path), help="Spec file, gpuprov/v1 YAML (docs/spec.md)."
            ),
            click.option("-n", "--count", type=int, help="Number of nodes."),
            click.option(
                "--name",
                callback=checked_cluster,
                help=f"Name of the cluster.  [default: the spec's, or {DEFAULT_CLUSTER}]",
            ),
            role_option("Purpose of the new nodes."),
            click.option("--gpus-per-node", type=int, metavar="N", help="Number of GPUs for each node."),
            click.option(
                "--sharing",
                type=click.Choice(["shared", "exclusive"]),
                help="Whether other nodes may hold the same GPUs.",
            ),
            gpu_mode_option,
            engine_option,
        )
    ):
        function = option(function)
    return function


def wanted_spec(host: Host, wanted: Mapping[str, object]) -> tuple[Driver, ClusterSpec]:
    """The spec that these options ask for, and its engine."""
    from gpuprov.planes import cluster_order as workflow

    wishes = workflow.Wishes(
        file=cast("Path | None", wanted["file"]),
        name=cast("str | None", wanted["name"]),
        count=cast("int | None", wanted["count"]),
        role=cast("Role | None", wanted["role"]),
        gpus_per_node=cast("int | None", wanted["gpus_per_node"]),
        sharing=cast("Sharing | None", wanted["sharing"]),
        gpu_mode=cast("GpuMode | None", wanted["gpu_mode"]),
    )
    driver = workflow.wanted_engine(host, cast("str | None", wanted["engine"]), wishes)
    return driver, workflow.wanted_spec(driver, wishes)
