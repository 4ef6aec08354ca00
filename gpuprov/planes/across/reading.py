"""What must be read from nodes is read before the host's lock is taken: a node that hangs holds up no other command.

Nodes that are started, repaired or restored under the lock are read there, since before they could not be.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import GpuprovError
from gpuprov.core.side_by_side import ask_side_by_side
from gpuprov.drivers.base import LABEL_ROLE
from gpuprov.planes.across.files import Reading, gather_files, look_at_files, present_crew
from gpuprov.planes.registry import planes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.planes.across.files import FilesSaid
    from gpuprov.planes.base import Plane

    Readings = Mapping[str, Reading]

_ROUNDS = 3


@contextmanager
def read_then_lock(
    driver: Driver,
    host: Host,
    clusters: Callable[[], Iterable[str]],
    *,
    seen: ClusterState | None = None,
    reporter: Reporter,
) -> Iterator[Readings]:
    """Read clusters' nodes, then hold the host's lock for the block; read again if the nodes changed in between.

    Where other runs change them again and again, they are read under the lock in the end, within limits as ever.

    Args:
        driver: The engine.
        host: Whose lock.
        clusters: Names the clusters; asked before each reading and, as other runs may make and remove some, after it.
            Where it fails before, another run may be making what is missing, and only its failing after that counts.
        seen: One of them as it was a moment ago: it is not observed again for the first reading.
        reporter: Is told which run this one waits for.

    Yields:
        What was read, by cluster.
    """

    def read(names: Iterable[str], known: Mapping[str, ClusterState]) -> Readings:
        states = {name: known.get(name) or observe_cluster(driver, name) for name in sorted(set(names))}
        return {name: read_cluster(driver, state) for name, state in states.items()}

    known = {seen.name: seen} if seen else {}
    for _ in range(_ROUNDS):
        readings, known = read(_named_so_far(clusters), known), {}
        with host.lock(reporter):
            if set(clusters()) == set(readings):
                now = {name: observe_cluster(driver, name) for name in readings}
                if all(_identities(now[name]) == _identities(found.state) for name, found in readings.items()):
                    yield {name: replace(found, state=now[name]) for name, found in readings.items()}
                    return
    with host.lock(reporter):
        yield read(clusters(), {})


def _named_so_far(clusters: Callable[[], Iterable[str]]) -> Iterable[str]:
    try:
        return clusters()
    except GpuprovError:
        return ()


def read_cluster(driver: Driver, state: ClusterState) -> Reading:
    """Read the planes' secrets, and what running nodes have of their files; a node that does not answer has none."""
    planes = planes_of(node.labels.get(LABEL_ROLE, "") for node in state.nodes)
    found: dict[str, bytes | GpuprovError] = {}
    files: dict[str, FilesSaid] = {}

    def read_secret(plane: Plane) -> None:
        try:
            found[plane.name] = plane.read_secret(driver, state)
        except GpuprovError as error:  # only a run that needs it must fail, and then it shall
            found[plane.name] = error

    def read_files() -> None:
        with suppress(GpuprovError):  # whoever needs the files gathers them again, and says why they cannot be
            files.update(_read_files(driver, state, planes))

    questions: list[Callable[[], None]] = [*(partial(read_secret, plane) for plane in planes), read_files]
    ask_side_by_side(questions, workers=len(questions))
    return Reading(state=state, secrets=found, files=files)


def _read_files(driver: Driver, state: ClusterState, planes: Sequence[Plane]) -> Mapping[str, FilesSaid]:
    """What running nodes say of their files; which these are does not depend on the planes' secrets."""
    crew = present_crew(state)
    if not crew.members or not all(plane.can_apply(state) for plane in planes):
        return {}
    unread = Reading(state=state, secrets={})
    files = gather_files(driver, crew, state, {}, unread)
    there = {member.name for member in crew.members}
    running = [node.name for node in state.nodes if node.status == "running" and node.name in there]
    return look_at_files(driver, running, files.of)


def _identities(state: ClusterState) -> frozenset[tuple[str, ...]]:
    """Which nodes a cluster has, and how they are: whoever replaces one changes this."""
    return frozenset((node.name, node.id, node.status, str(node.complete)) for node in state.nodes)
