"""Whether a cluster is on this machine alone: then no other host is asked for it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.state import observe_cluster
from gpuprov.cluster.whole import recorded_host
from gpuprov.machine.survey import survey

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host


def is_here_alone(host: Host, name: str) -> bool:
    """Whether an engine of this host has the cluster, and it does not span hosts."""
    seen = survey([door for door in host.engines if door.installed()], partial(_has_alone, name=name))
    return any(seen.answers.values())


def _has_alone(driver: Driver, *, name: str) -> bool:
    state = observe_cluster(driver, name)
    return state.exists and not recorded_host(state)
