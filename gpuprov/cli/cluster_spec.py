"""The spec that `cluster up` and `cluster plan` work on: a file, else what is recorded, changed by flags."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from gpuprov.cli.engine import (
    DEFAULT_CLUSTER,
    engine_option,
    gpu_mode_option,
    open_engine,
    open_engine_of_cluster,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.drivers.base import Driver
    from gpuprov.spec.models import ClusterSpec, Engine, GpuMode, Role, Sharing


def spec_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what is wanted."""
    for option in reversed(
        (
            click.option(
                "-f", "--file", type=click.Path(path_type=Path), help="A spec, gpuprov/v1 YAML (docs/spec.md)."
            ),
            click.option("-n", "--count", type=int, help="How many nodes."),
            click.option("--name", help=f"The cluster.  [default: the spec's, or {DEFAULT_CLUSTER}]"),
            click.option("--role", type=click.Choice(["plain", "slurm"]), help="What new nodes are for."),
            click.option("--gpus-per-node", type=int, metavar="N", help="GPUs that each node holds."),
            click.option(
                "--sharing", type=click.Choice(["shared", "exclusive"]), help="Who else may hold a node's GPUs."
            ),
            gpu_mode_option,
            engine_option,
        )
    ):
        function = option(function)
    return function


def wanted_spec(wanted: Mapping[str, object]) -> tuple[Driver, ClusterSpec]:
    """The file's spec, or the one recorded with the cluster, or the default one; then the flags. And its engine."""
    from gpuprov.spec.load import load_spec
    from gpuprov.spec.models import ClusterSpec
    from gpuprov.workflows.cluster_state import observe_cluster

    name, engine = cast("str | None", wanted["name"]), cast("str | None", wanted["engine"])
    if wanted["file"] is not None:
        spec = load_spec(cast("Path", wanted["file"]))
        spec = replace(spec, name=name or spec.name)
        driver = open_engine(engine or spec.engine)
    else:
        name = name or DEFAULT_CLUSTER
        driver = open_engine_of_cluster(engine, name, creates=True)
        spec = observe_cluster(driver, name).spec or ClusterSpec(name=name)
    nodes, gpus = spec.nodes, spec.gpus
    if wanted["count"] is not None:
        nodes = replace(nodes, count=cast("int", wanted["count"]))
    if wanted["role"] is not None:
        nodes = replace(nodes, role=cast("Role", wanted["role"]))
    if wanted["gpus_per_node"] is not None:
        gpus = replace(gpus, per_node=cast("int", wanted["gpus_per_node"]))
    if wanted["sharing"] is not None:
        gpus = replace(gpus, sharing=cast("Sharing", wanted["sharing"]))
    if wanted["gpu_mode"] is not None:
        gpus = replace(gpus, mode=cast("GpuMode", wanted["gpu_mode"]))
    return driver, replace(spec, engine=cast("Engine", driver.name), nodes=nodes, gpus=gpus)
