"""The files that every node has, whatever it is for: pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from gpuprov.assets import get_asset
from gpuprov.cluster.held_gpus import gpu_paths, leased_uuids, recorded_cores, recorded_units, types_of
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_ROLE, File
from gpuprov.render.templates import render
from gpuprov.shapes.whole import Member

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cluster.design import NodeDesign
    from gpuprov.cluster.plan import Plan
    from gpuprov.drivers.base import NodeState


def planned_member(design: NodeDesign) -> Member:
    """A node as it is designed."""
    return Member(
        name=design.name,
        address=design.address,
        private_address=design.private_address,
        role=design.role,
        devices=gpu_paths(design.devices),
        gpu_types=design.gpu_types,
        gpu_cores=design.gpu_cores or UNSET,
        gpus=design.gpus,
        units=design.gpu_units or UNSET,
        simulated=design.access == "simulated",
    )


def planned_members(plan: Plan) -> tuple[Member, ...]:
    """Every node of a cluster on this host once a plan is done, by name."""
    return tuple(planned_member(design) for design in plan.members)


def present_member(node: NodeState) -> Member:
    """A node as it is."""
    return Member(
        name=node.name,
        address=node.addresses.get("eth0", "").partition("/")[0],
        private_address=node.addresses.get("eth1", "").partition("/")[0],
        role=node.labels.get(LABEL_ROLE, ""),
        devices=gpu_paths(node.devices),
        gpu_types=types_of(node),
        gpu_cores=recorded_cores(node) or UNSET,
        gpus=leased_uuids(node),
        units=recorded_units(node) or UNSET,
        simulated=node.labels.get(LABEL_ACCESS) == "simulated",
    )


def render_hosts(cluster: str, members: Sequence[Member]) -> File:
    """`/etc/hosts` with every node's addresses."""
    text = render(get_asset("templates"), "node/hosts.j2", cluster=cluster, nodes=members)
    return File(path="/etc/hosts", content=text.encode())


def seed_files(*, nameserver: str, public_key: str) -> tuple[File, ...]:
    """What any node needs before it boots: a resolver and the key of the user who may log in."""
    return (
        File(path="/etc/resolv.conf", content=f"nameserver {nameserver}\n".encode()),
        File(path="/root/.ssh/authorized_keys", content=f"{public_key}\n".encode(), mode=0o600),
    )
