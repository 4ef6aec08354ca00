"""What this host does with its ports that lead into nodes, asked from here or by a controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.retry_after_wait import act_on_nodes
from gpuprov.lifecycle.expose import expose, unexpose
from gpuprov.shapes.outcome import Changes

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.outcome import Outcome
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.shapes.orders import ExposeOrder, OneNodeOrder, UnexposeOrder


def serve_expose(order: ExposeOrder, host: Host, reporter: Reporter) -> Changes:
    """Forward a port into a node."""

    def act(driver: Driver, host: Host) -> Outcome:
        return expose(driver, order.node, order.exposure, host, reporter=reporter)

    return _change(order, host, reporter, act)


def serve_unexpose(order: UnexposeOrder, host: Host, reporter: Reporter) -> Changes:
    """Undo that."""

    def act(driver: Driver, _host: Host) -> Outcome:
        return unexpose(driver, order.node, order.host_port, reporter=reporter)

    return _change(order, host, reporter, act)


def _change(order: OneNodeOrder, host: Host, reporter: Reporter, act: Callable[[Driver, Host], Outcome]) -> Changes:
    done = act_on_nodes(host, order.engine, [order.node], act, reporter=reporter)
    return Changes(host=host.name, changed=done.changed)
