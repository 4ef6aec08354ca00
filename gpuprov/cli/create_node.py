"""`gpuprov create-node`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from gpuprov.cli.engine import cluster_option, engine_option, gpu_mode_option, show_outcome
from gpuprov.cli.gpu_options import gpu_options, mount_option, typed_gpus
from gpuprov.cli.parameters import node_argument
from gpuprov.cli.roles import role_option

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.shapes.choices import GpuMode, Network


@click.command()
@node_argument("name", new=True)
@click.option("--addr", metavar="ADDRESS", help="Address on the NAT bridge.  [default: derived from the node's number]")
@role_option("Purpose of the node.  [default: the cluster's]")
@gpu_options
@click.option("--image", metavar="NAME", help="A gpuprov image or an image of the engine.  [default: the role's]")
@mount_option
@click.option(
    "--network",
    type=click.Choice(["both", "nat", "private"]),
    default="both",
    show_default=True,
    help="Networks of the node.",
)
@click.option("--host", metavar="HOST", help="Host that `host add` has added.")
@click.option("--privileged", is_flag=True, help="Make root in the node root on the host: docs/security.md.")
@cluster_option
@gpu_mode_option
@engine_option
@click.pass_obj
def command(
    session: Session, /, name: str, cluster: str, engine: str | None, gpu_mode: str | None, **wanted: object
) -> int:
    """Add a node, with addresses and GPUs, and register it with its cluster.

    The first node of a cluster that does not exist yet is a Slurm node if it is c000, the controller, and a plain node
    otherwise. `gpuprov cluster up -n 4` adds the other nodes.

    In a cluster that spans hosts, the node goes to a host that has the GPUs for it; other nodes are made on this
    machine.
    """
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.fleet.hosted_order import HostedOrder
    from gpuprov.shapes.node_order import NodeOrder
    from gpuprov.spec.mounts import parse_mount
    from gpuprov.stories.create_node import create_node

    node = NodeOrder(
        name=name,
        cluster=cluster,
        address=cast("str | None", wanted["addr"]),
        role=cast("str | None", wanted["role"]),
        gpus=typed_gpus(wanted),
        environment=cast("tuple[str, ...]", wanted["variables"]),
        image=cast("str | None", wanted["image"]),
        mounts=tuple(parse_mount(text) for text in cast("tuple[str, ...]", wanted["mounts"])),
        network=cast("Network", wanted["network"]),
        privileged=bool(wanted["privileged"]),
        gpu_mode=cast("GpuMode", gpu_mode or "auto"),
    )
    host, wait_s = cast("str | None", wanted["host"]), cast("float | None", wanted["wait"])
    order = HostedOrder(node=node, host=host, engine=engine or "", wait_s=wait_s)
    done = create_node(open_fleet(session, engine if host is None else None), order)
    return show_outcome(session, done.outcome, done.error)
