"""What must be read from nodes is read before the host's lock is taken: a node that hangs holds up no other command.

Nodes that are started, repaired or restored under the lock are read there, since before they could not be.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import GpuprovError
from gpuprov.drivers.base import LABEL_ROLE
from gpuprov.planes.files import Reading, gather_files, look_at_files, present_crew
from gpuprov.planes.registry import planes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.planes.base import Plane

    Readings = Mapping[str, Reading]

_ROUNDS = 3


@contextmanager
def read_then_lock(
    driver: Driver, host: Host, clusters: Callable[[], Iterable[str]], *, reporter: Reporter
) -> Iterator[Readings]:
    """Read clusters' nodes, then hold the host's lock for the block; read again if the nodes changed in between.

    Where other runs change them again and again, they are read under the lock in the end, within limits as ever.

    Args:
        driver: The engine.
        host: Whose lock.
        clusters: Names the clusters; asked before each reading and, as other runs may make and remove some, after it.
            Where it fails before, another run may be making what is missing, and only its failing after that counts.
        reporter: Is told which run this one waits for.

    Yields:
        What was read, by cluster.
    """

    def read(names: Iterable[str]) -> Readings:
        return {name: read_cluster(driver, observe_cluster(driver, name)) for name in sorted(set(names))}

    for _ in range(_ROUNDS):
        readings = read(_named_so_far(clusters))
        with host.lock(reporter):
            if set(clusters()) == set(readings) and all(
                _identities(observe_cluster(driver, name)) == found.nodes for name, found in readings.items()
            ):
                yield readings
                return
    with host.lock(reporter):
        yield read(clusters())


def _named_so_far(clusters: Callable[[], Iterable[str]]) -> Iterable[str]:
    try:
        return clusters()
    except GpuprovError:
        return ()


def read_cluster(driver: Driver, state: ClusterState) -> Reading:
    """Read the planes' secrets, and what running nodes have of their files; a node that does not answer has none."""
    planes = planes_of(node.labels.get(LABEL_ROLE, "") for node in state.nodes)
    secrets = {plane.name: _read_secret(driver, plane, state) for plane in planes}
    reading = Reading(nodes=_identities(state), secrets=secrets)
    try:
        crew = present_crew(state)
        if not crew.members or not all(plane.can_apply(state) for plane in planes):
            return reading
        files = gather_files(driver, crew, state, {}, reading)
    except GpuprovError:  # whoever needs the files gathers them again, and says why they cannot be
        return reading
    there = {member.name for member in crew.members}
    running = [node.name for node in state.nodes if node.status == "running" and node.name in there]
    return replace(reading, files=look_at_files(driver, running, files.of))


def _read_secret(driver: Driver, plane: Plane, state: ClusterState) -> bytes | GpuprovError:
    try:
        return plane.read_secret(driver, state)
    except GpuprovError as error:  # only a run that needs it must fail, and then it shall
        return error


def _identities(state: ClusterState) -> frozenset[tuple[str, ...]]:
    """Which nodes a cluster has, and how they are: whoever replaces one changes this."""
    return frozenset((node.name, node.id, node.status, str(node.complete)) for node in state.nodes)
