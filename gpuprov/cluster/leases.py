"""Leases on GPUs, read from the labels of every node of every engine of this host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from gpuprov.cluster.foreign_gpus import find_foreign_uses
from gpuprov.cluster.held_gpus import is_gpu_path, leased_uuids, sharing_of
from gpuprov.core.process import is_gone
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_DETACHED, LABEL_PROCESS, LABEL_ROLE, ROLE_JOB
from gpuprov.gpu.allocate import Claims, Lease
from gpuprov.gpu.tickets import read_waiting
from gpuprov.machine.survey import survey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.cluster.foreign_gpus import ForeignUse
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.gpu.allocate import LeaseRequest
    from gpuprov.machine.base import Host
    from gpuprov.machine.survey import EngineDoor, Survey


def read_leases(nodes: Iterable[NodeState], *, engine: str) -> tuple[Lease, ...]:
    """Who holds what, by node, stopped and unfinished nodes too: a lease lives as long as its node.

    But nothing is held by a job whose `gpuprov run` was killed before it started.
    """
    return tuple(
        Lease(
            node=node.name,
            host=node.host,
            gpus=leased_uuids(node),
            sharing=sharing_of(node),
            engine=engine,
            cluster=node.labels.get(LABEL_CLUSTER, ""),
            status=node.status,
            minors=tuple(device.minor for device in node.devices if is_gpu_path(device.path)),
        )
        for node in sorted(nodes, key=lambda node: node.name)
        if leased_uuids(node) and (node.status == "running" or not is_orphan(node))
    )


def is_orphan(node: NodeState) -> bool:
    """Whether it is a job whose `gpuprov run` was killed; one that is detached goes on without, once it was started."""
    if node.labels.get(LABEL_ROLE) != ROLE_JOB or (LABEL_DETACHED in node.labels and node.complete):
        return False
    return is_gone(node.labels.get(LABEL_PROCESS, ""))


@dataclass(frozen=True, kw_only=True)
class Held:
    """What the nodes of an engine hold, and the GPUs that foreign instances can open."""

    leases: tuple[Lease, ...]
    foreign: tuple[ForeignUse, ...]


class Neighbours:
    """The engines of a host, its containers that are no nodes, and the queue of those who wait for its GPUs."""

    def __init__(self, host: Host) -> None:
        self.queue = host.queue
        self._doors = host.engines
        self.containers = host.container_leases
        self._open: dict[str, Driver] = {}

    def survey(self, *, without: str = "") -> Survey[Held]:
        """The leases of all engines.

        Args:
            without: Name of an engine not to ask, because its nodes are known.
        """
        doors = [replace(door, open=partial(self._reopen, door)) for door in self._doors if door.name != without]
        return survey(doors, self._read)

    def claims(self, engine: str, *, before: int | None = None) -> Claims:
        """What a request to `engine` has to respect beside that engine's own nodes.

        Args:
            engine: Name of the engine whose nodes are known.
            before: Number of one's own ticket; those that wait later need no respect.
        """
        others = self.survey(without=engine)
        leases = (*chain.from_iterable(held.leases for held in others.answers.values()), *self.containers())
        return Claims(
            engine=engine,
            leases=leases,
            waiting=self.waiting(before=before),
            silent=others.silent,
            closed=others.closed,
        )

    def waiting(self, *, before: int | None = None) -> tuple[LeaseRequest, ...]:
        """Who stands in the queue, the first one first; with `before`, only those ahead of that ticket."""
        return read_waiting(self.queue, before=before)

    def _reopen(self, door: EngineDoor) -> Driver:
        return self._open.pop(door.name, None) or door.open()  # after an error the next query reconnects

    def _read(self, driver: Driver) -> Held:
        nodes = driver.list_nodes()
        self._open[driver.name] = driver
        return Held(leases=read_leases(nodes, engine=driver.name), foreign=find_foreign_uses(driver, nodes))
