"""Restore what a reboot takes from the networks of clusters: isolation, rules beside Docker's, and ends of overlays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.network_plan import open_networks
from gpuprov.cluster.networks import isolate_networks
from gpuprov.cluster.part import recorded_overlay
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import GpuprovError
from gpuprov.core.outcome import Outcome
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.drivers.forward_rules import let_through
from gpuprov.machine.cdi_file import renew_cdi_file
from gpuprov.machine.survey import survey

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host


def restore_host(engine: str, host: Host, *, reporter: Reporter) -> Outcome:
    """Bring the networks of an engine's clusters to what their labels say, and CDI's file to the driver that is loaded.

    A second run changes nothing.

    Raises:
        GpuprovError: The engine does not respond (yet), or something cannot be restored; the rest is. A cluster whose
            record cannot be read is a warning.
    """
    driver = host.open(engine)
    with host.lock(reporter):
        restored = restore_networks(driver, host, reporter=reporter)
    return Outcome(changed=(*restored, *renew_cdi_file(host, reporter=reporter)))


def restore_networks(driver: Driver, host: Host, *, reporter: Reporter) -> tuple[str, ...]:
    """The same for who holds the host's lock; returns a line for each change."""
    networks = driver.list_networks()
    clusters = {network.labels[LABEL_CLUSTER] for network in networks if network.ours}
    changed = isolate_networks(driver, open_networks(networks, clusters), reporter=reporter)
    _let_clusters_through(host)
    ends = [_restore_overlay(driver, host, cluster, reporter) for cluster in sorted(clusters)]
    error = next((error for _, error in ends if error), None)
    if error:
        raise error
    return (*changed, *(line for lines, _ in ends for line in lines))


def _restore_overlay(
    driver: Driver, host: Host, cluster: str, reporter: Reporter
) -> tuple[tuple[str, ...], GpuprovError | None]:
    """The lines of changes, and why it could not be done: the other clusters are restored nevertheless.

    A record that this version cannot read is no error: it does not become readable by trying again.
    """
    try:
        state = observe_cluster(driver, cluster)
        try:
            request = recorded_overlay(driver, state)
        except GpuprovError as error:
            why = f"{error.what}: {' '.join(error.evidence.split())}; {error.fix}"
            reporter.warn(f"of the networks of cluster {cluster}, only the isolation is restored: {why}")
            return (), None
        return (host.overlays.ensure(request) if request else ()), None
    except GpuprovError as error:
        return (), error


def _let_clusters_through(host: Host) -> None:
    """Bridges of other names than the usual ones, also of other engines: what was just prepared may be Docker."""
    for networks in survey(host.engines, lambda driver: driver.list_networks()).answers.values():
        for network in networks:
            if network.ours and network.address:
                let_through(network.name)
