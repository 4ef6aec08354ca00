"""The cluster's two networks: ensured before nodes, removed after them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuprov.core.interrupts import to_its_end
from gpuprov.core.outcome import Outcome
from gpuprov.drivers.base import LABEL_SPEC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.core.rollback import Rollback
    from gpuprov.drivers.base import Driver
    from gpuprov.drivers.networks import NetworkRequest
    from gpuprov.spec.models import ClusterSpec


def create_networks(
    driver: Driver, requests: tuple[NetworkRequest, ...], rollback: Rollback, *, reporter: Reporter
) -> Outcome:
    """Make the planned networks, and isolate each from those of other clusters.

    One after the other: on Docker the second is on the bridge of the first.
    """
    for request in requests:
        rollback.add(f"network {request.name}", partial(driver.delete_network, request.name))
        to_its_end(partial(driver.create_network, request))
    isolate_networks(driver, [request.name for request in requests], reporter=reporter)
    return Outcome(changed=tuple(f"created network {request.name}" for request in requests))


def isolate_networks(driver: Driver, names: Sequence[str], *, reporter: Reporter) -> tuple[str, ...]:
    """Isolate networks; what is impossible here is a warning, for they work without. Returns the lines of changes."""
    lacks = {name: to_its_end(partial(driver.isolate_network, name)) for name in names}
    for reason in sorted({lack for lack in lacks.values() if lack}):
        open_ones = ", ".join(name for name, lack in lacks.items() if lack == reason)
        check = f"sudo gpuprov doctor --engine {driver.name}"
        reporter.warn(f"nodes of other clusters on this host can reach those on {open_ones}: {reason}; check: {check}")
    return tuple(f"isolated network {name}" for name, lack in lacks.items() if not lack)


def record_spec(driver: Driver, spec: ClusterSpec, text: str, state: ClusterState) -> None:
    """Write what was asked for onto the cluster's network, if it is not there yet, and take away what others have."""
    network = next((found for found in state.own_networks if found.name == spec.network.bridge), None)
    if network is None or network.labels.get(LABEL_SPEC) != text:
        driver.set_network_labels(spec.network.bridge, {LABEL_SPEC: text})
    for found in state.own_networks:
        if found.name != spec.network.bridge and found.labels.get(LABEL_SPEC):
            driver.set_network_labels(found.name, {LABEL_SPEC: ""})
