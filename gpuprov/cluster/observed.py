"""What plans are made of: a cluster as it was found, with its engine, its host and what is around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from gpuprov.cluster.leases import read_leases
from gpuprov.cluster.placement import Place
from gpuprov.cluster.replacements import ghosts_of
from gpuprov.cluster.room import ask_limits
from gpuprov.cluster.state import with_current_gpus
from gpuprov.cluster.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.cluster.placement import Mounts
    from gpuprov.cluster.state import ClusterState, EngineState
    from gpuprov.drivers.base import Driver
    from gpuprov.gpu.allocate import Claims
    from gpuprov.gpu.models import HostGpus
    from gpuprov.machine.base import Host
    from gpuprov.shapes.engine import ImageState


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A cluster, and all that has a say in what it can become.

    Attributes:
        driver: The engine.
        host: The machine.
        gpus: Its GPUs, with the ways in that the engine has.
        state: The cluster, and what else the engine has.
        claims: What its other engines hold, and who waits.
        built: The images that this run has built, by role.
    """

    driver: Driver
    host: Host
    gpus: HostGpus
    state: ClusterState
    claims: Claims
    built: Mapping[str, ImageState]

    @cached_property
    def around(self) -> Surroundings:
        """The host around the cluster."""
        return Surroundings(self.driver, self.host, self.state)

    def without(self, node: str) -> Observed:
        """The same, if the cluster did not have that node."""
        nodes = tuple(one for one in self.state.nodes if one.name != node)
        return replace(self, state=replace(self.state, nodes=nodes))

    def place(self, shared: Mounts, *, nodes: int) -> Place:
        """The host for the nodes of a plan.

        Args:
            shared: What it mounts in them.
            nodes: How many the cluster is to have here.
        """
        found = (*self.state.nodes, *ghosts_of(self.state), *self.state.others)
        return Place(
            host=self.host.name,
            gpus=self.gpus,
            leases=read_leases(found, engine=self.driver.name),
            claims=self.claims,
            shared=shared,
            limits=ask_limits(self.driver, self.host, nodes=nodes),
        )


def observe(driver: Driver, host: Host, engine: EngineState, cluster: str, gpus: HostGpus, claims: Claims) -> Observed:
    """Put together what the engine was found to have, and what is known of the host."""
    state = with_current_gpus(engine.cluster(cluster), gpus)
    return Observed(driver=driver, host=host, gpus=gpus, state=state, claims=claims, built=engine.built)
