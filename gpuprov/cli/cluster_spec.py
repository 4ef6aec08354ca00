"""The spec that `cluster up` and `cluster plan` work on: a file, else what is recorded, changed by flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from gpuprov.cli.engine import engine_option, gpu_mode_option
from gpuprov.cli.gpu_options import cluster_gpu_options, typed_gpus
from gpuprov.cli.parameters import checked_cluster
from gpuprov.cli.roles import role_option
from gpuprov.shapes.choices import DEFAULT_CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.lifecycle.cluster_order import ClusterOrder
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.shapes.choices import GpuMode, RoleName


def spec_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what is ordered."""
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
            click.option(
                "--bridge", metavar="NAME", help="Bridge of the NAT network of a new cluster.  [default: a free one]"
            ),
            click.option("--subnet", help="Subnet of that network, such as 10.9.3.0/24.  [default: a free one]"),
            cluster_gpu_options,
            click.option(
                "--share",
                is_flag=False,
                flag_value="true",
                metavar="[FOLDER]",
                help="Let the nodes share a folder of the host as /shared; over hosts, one that all have mounted.  "
                "[default folder, on one host: /srv/gpuprov/NAME]",
            ),
            click.option(
                "--prune", is_flag=True, help="Also remove nodes from create-node or clone that the spec does not have."
            ),
            click.option(
                "--renew",
                is_flag=True,
                help="Also replace nodes that have an older image, one after the other; running jobs are waited for.",
            ),
            gpu_mode_option,
            engine_option,
        )
    ):
        function = option(function)
    return function


def cluster_order(options: Mapping[str, object], policy: JobsPolicy | None = None) -> ClusterOrder:
    """The cluster that these options ask for."""
    from gpuprov.lifecycle import cluster_order as workflow
    from gpuprov.lifecycle.leaving import SPARE_JOBS

    return workflow.ClusterOrder(
        file=cast("Path | None", options["file"]),
        name=cast("str | None", options["name"]),
        count=cast("int | None", options["count"]),
        role=cast("RoleName | None", options["role"]),
        gpus=typed_gpus(options),
        gpu_mode=cast("GpuMode | None", options["gpu_mode"]),
        bridge=cast("str | None", options["bridge"]),
        subnet=cast("str | None", options["subnet"]),
        share=workflow.read_share(cast("str | None", options["share"])),
        prune=bool(options["prune"]),
        renew=bool(options["renew"]),
        verify=bool(options.get("verify")),
        keep_on_failure=bool(options.get("keep_on_failure")),
        engine=cast("str | None", options["engine"]),
        policy=policy or SPARE_JOBS,
    )
