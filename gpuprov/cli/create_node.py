"""Verbs that make a node: create-node, clone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import click

from gpuprov.cli.command import command
from gpuprov.cli.engine import cluster_option, engine_option, gpu_mode_option
from gpuprov.cli.gpu_options import gpu_options, mount_option, typed_gpus
from gpuprov.cli.options import node_argument, role_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cli.session import Session
    from gpuprov.fleet.done import Done
    from gpuprov.shapes.choices import GpuMode, Network


_address_option: Final[Callable[[Any], Any]] = click.option(
    "--addr", metavar="ADDRESS", help="Address on the NAT bridge.  [default: derived from the node's number]"
)


@command(
    node_argument("name", new=True),
    _address_option,
    role_option("Purpose of the node.  [default: the cluster's]"),
    gpu_options,
    click.option("--image", metavar="NAME", help="A gpuprov image or an image of the engine.  [default: the role's]"),
    mount_option,
    click.option(
        "--network",
        type=click.Choice(["both", "nat", "private"]),
        default="both",
        show_default=True,
        help="Networks of the node.",
    ),
    click.option("--host", metavar="HOST", help="Host that `host add` has added."),
    click.option("--privileged", is_flag=True, help="Make root in the node root on the host: docs/security.md."),
    cluster_option,
    gpu_mode_option,
    engine_option,
)
def create(session: Session, /, name: str, gpu_mode: str | None, **wanted: object) -> Done:
    """Add a node, with addresses and GPUs, and register it with its cluster.

    The first node of a cluster that does not exist yet is a Slurm node if it is c000, the controller, and a plain node
    otherwise. `gpuprov cluster up -n 4` adds the other nodes. If the name of the cluster is like that of another one,
    it asks on a terminal, and refuses elsewhere.

    In a cluster that spans hosts, the node goes to a host that has the GPUs for it; other nodes are made on this
    machine.
    """
    from gpuprov.cli.agreement import require_agreement
    from gpuprov.cli.session import open_fleet
    from gpuprov.cluster.surroundings import ClusterSlip
    from gpuprov.fleet.hosted_order import HostedOrder
    from gpuprov.shapes.base import changed
    from gpuprov.shapes.node_order import NodeOrder
    from gpuprov.spec.mounts import parse_mount
    from gpuprov.stories.create_node import create_node

    node = NodeOrder(
        name=name,
        cluster=session.cluster,
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
    order = HostedOrder(node=node, host=host, engine=session.engine or "", wait_s=wait_s)
    fleet = open_fleet(session, session.engine if host is None else None)
    try:
        return create_node(fleet, order)
    except ClusterSlip as slip:
        if not session.interactive:
            raise
        kept = "no node was created"
        require_agreement(session, session.cluster, slip.what, [slip.evidence], kept=kept, fix=slip.fix)
    return create_node(fleet, replace(order, node=changed(node, new_cluster=True)))


@command(
    node_argument("source"),
    node_argument("name", new=True),
    _address_option,
    gpu_mode_option,
    engine_option,
)
def clone(session: Session, source: str, name: str, addr: str | None, gpu_mode: str | None) -> Done:
    """Copy a stopped node, on its host. The copy gets an address, a host key and a GPU lease of its own."""
    from gpuprov.lifecycle.create_node import CloneOrder
    from gpuprov.stories.create_node import clone_node

    order = CloneOrder(source=source, name=name, address=addr, gpu_mode=cast("GpuMode", gpu_mode or "auto"))
    return clone_node(session.fleet, order)
