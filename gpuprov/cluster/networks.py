"""The cluster's two networks: ensured before nodes, removed after them."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.network_plan import changed_ports
from gpuprov.core.interrupts import to_its_end
from gpuprov.core.side_by_side import beside
from gpuprov.drivers.base import LABEL_HOST_PORTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from threading import Event

    from gpuprov.cluster.network_plan import NetworkPlan
    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.core.rollback import Rollback
    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.cluster_spec import ClusterSpec


@contextmanager
def networks_created(driver: Driver, plan: NetworkPlan, rollback: Rollback, *, reporter: Reporter) -> Iterator[None]:
    """Make the planned networks, and isolate each from those of other clusters; nodes can be attached in the block.

    They are completed beside the block, whose end waits for it.
    """
    if not plan.requests:
        yield
        return

    def complete(_: Event) -> None:
        for request in plan.requests:
            driver.complete_network(request)

    with reporter.phase("networks"):
        for request in plan.create:  # one after the other: on Docker the second is on the bridge of the first
            rollback.add(f"network {request.name}", partial(driver.delete_network, request.name))
            to_its_end(partial(driver.create_network, request))
        isolate_networks(driver, [request.name for request in plan.create], reporter=reporter)
    with beside(complete) as completed:
        yield
        completed()


def isolate_networks(driver: Driver, names: Sequence[str], *, reporter: Reporter) -> tuple[str, ...]:
    """Isolate networks; what is impossible here is a warning, for they work without. Returns the lines of changes."""
    lacks = {name: to_its_end(partial(driver.isolate_network, name)) for name in names}
    for reason in sorted({lack for lack in lacks.values() if lack}):
        open_ones = ", ".join(name for name, lack in lacks.items() if lack == reason)
        check = f"sudo gpuprov doctor --engine {driver.name}"
        reporter.warn(
            f"nodes of other clusters on this host can reach those on {open_ones}, and these every service of the "
            f"host: {reason}; check: {check}"
        )
    return tuple(f"isolated network {name}" for name, lack in lacks.items() if not lack)


def record_host_ports(driver: Driver, spec: ClusterSpec, state: ClusterState) -> None:
    """Write onto the cluster's network which ports of the host its rules are to open, if that has changed."""
    for network, ports, _ in changed_ports(spec, state):
        driver.set_network_labels(network.name, {LABEL_HOST_PORTS: ports})


def record_labels(driver: Driver, spec: ClusterSpec, labels: Mapping[str, str], state: ClusterState) -> None:
    """Write what was asked for onto the cluster's network, if it is not there yet, and take away what others have."""
    network = next((found for found in state.own_networks if found.name == spec.network.bridge), None)
    if network is None or any(network.labels.get(label) != text for label, text in labels.items()):
        driver.set_network_labels(spec.network.bridge, labels)
    for found in state.own_networks:
        others = {label: "" for label in labels if found.labels.get(label)}
        if found.name != spec.network.bridge and others:
            driver.set_network_labels(found.name, others)
