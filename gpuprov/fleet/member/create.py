"""What a controller has this host do for a new node: say what it offers to it, and make it."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import TYPE_CHECKING

from gpuprov.cluster.files import present_member
from gpuprov.cluster.find_engine import engine_of_cluster
from gpuprov.cluster.order_label import read_order_text
from gpuprov.cluster.retry_after_wait import act_on_cluster, act_on_nodes
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import GpuprovError, NoEngine, UsageError
from gpuprov.core.names import check_cluster_name
from gpuprov.fleet.member.host_offer import look_for_one
from gpuprov.fleet.member.told_part import tell_no_engine, tell_part
from gpuprov.gpu.waiting_for_gpus import Patience
from gpuprov.lifecycle.create_node import clone_node, create_node
from gpuprov.roles.registry import role_of
from gpuprov.shapes.base import changed, raw, text_of
from gpuprov.shapes.members import Created, Sought
from gpuprov.shapes.whole import WholeCluster

if TYPE_CHECKING:
    from gpuprov.core.outcome import Outcome
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.lifecycle.create_node import CloneOrder
    from gpuprov.machine.base import Host
    from gpuprov.shapes.node_order import NodeOrder
    from gpuprov.shapes.orders import CreateOrder, SeekOrder


def serve_seek(order: SeekOrder, host: Host, reporter: Reporter) -> Sought:
    """The host's part of the cluster, with an offer."""
    wanted = _order_of(order)
    try:
        driver = engine_of_cluster(wanted.cluster, host.engines, reporter=reporter, creates=True)
    except NoEngine as error:
        return Sought(part=raw(tell_no_engine(error, host=host.name)), secret=b"")
    part = look_for_one(driver, wanted, host, reporter=reporter)
    secret = b""
    if part.spec and part.spec.hosts:
        with suppress(GpuprovError):  # another host has it too
            role = part.spec.nodes.role
            secret = role_of(role).read_secret(driver, observe_cluster(driver, wanted.cluster))
    return Sought(part=raw(tell_part(part, host=host.name)), secret=secret)


def serve_create(order: CreateOrder, host: Host, reporter: Reporter) -> Created:
    """Make it; the answer has the nodes of the cluster on this host, for those of other hosts."""
    wanted = changed(_order_of(order), secret=base64.b64encode(order.secret).decode(), sssd=order.sssd)
    driver, done = make_node(wanted, host, engine=order.engine, wait_s=order.wait_s, reporter=reporter)
    facts = driver.facts()
    here = [present_member(node) for node in observe_cluster(driver, wanted.cluster).nodes if node.complete]
    mine = WholeCluster().with_host(host.name, here, cpus=facts.cpus, memory_bytes=facts.memory_bytes)
    return Created(changed=done.changed, whole=mine)


def make_node(
    order: NodeOrder, host: Host, *, engine: str, wait_s: float | None, reporter: Reporter
) -> tuple[Driver, Outcome]:
    """Make it on the engine that has the cluster, or on the one that is said or the default one; returns that, too."""

    def create(driver: Driver, host: Host) -> tuple[Driver, Outcome]:
        return driver, create_node(driver, order, host, patience=Patience(wait_s=wait_s), reporter=reporter)

    return act_on_cluster(host, engine, order.cluster, create, reporter=reporter, creates=True)


def copy_node(order: CloneOrder, host: Host, *, engine: str, reporter: Reporter) -> Outcome:
    """Copy a node of this host, on the engine that has it."""

    def copy(driver: Driver, host: Host) -> Outcome:
        return clone_node(driver, order, host, reporter=reporter)

    return act_on_nodes(host, engine, [order.source], copy, reporter=reporter)


def _order_of(order: SeekOrder) -> NodeOrder:
    text = text_of(order.order)
    read = read_order_text(text)
    if read.order is None or read.unknown:
        raise UsageError("the request for a node cannot be served", evidence=f"{text:.200}", fix="gpuprov host list")
    check_cluster_name(read.order.cluster)
    return changed(read.order, gpu_mode=order.gpu_mode, agreed=True)
