"""Bring running nodes to their files, by their planes, and wait until they take work."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.cluster.files import present_member
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import SpecError
from gpuprov.drivers.base import LABEL_ROLE, ROLE_JOB
from gpuprov.planes.base import Crew, spec_of
from gpuprov.planes.files import find_stale, gather_files, renewal_lines
from gpuprov.planes.registry import planes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.planes.files import FileSet


def renew_nodes(
    driver: Driver, files: FileSet, old: Sequence[str], *, new: Sequence[str] = (), reporter: Reporter
) -> tuple[str, ...]:
    """Bring nodes that run to their files, have services read them, and wait until all nodes that run are ready.

    Args:
        driver: Reaches the nodes.
        files: The files of the whole cluster.
        old: Nodes that run and may hold older files.
        new: Nodes that run and were made with these files.
        reporter: Hears each node's state.

    Returns:
        One line for each set of files that nodes lacked, and for each node that a killed run had kept from work.
    """
    stale = find_stale(driver, old, files.of)
    released: list[str] = []
    up = {*old, *new}
    crew = replace(files.crew, members=tuple(member for member in files.crew.members if member.name in up))
    known = [plane.name for plane in files.planes]
    for plane in files.planes:
        mine = {member.name for member in crew.of(plane.name)}
        with reporter.phase(plane.name) if plane.has_services else nullcontext():
            plane.apply(driver, crew, {name: lacking for name, lacking in stale.items() if name in mine}, files.of)
            released += plane.wait_ready(driver, crew, reporter)
    others = {member.name for member in crew.members if member.role not in known}
    for name in others & set(stale):
        driver.push(name, stale[name])
    return (*renewal_lines(files.planes, stale), *released)


def renew_clusters(driver: Driver, clusters: Iterable[str], *, reporter: Reporter) -> tuple[str, ...]:
    """After nodes came, went, started or stopped: bring the others' files to that; one line for each change."""
    return tuple(line for name in sorted(clusters) for line in renew_cluster(driver, name, reporter=reporter))


def renew_cluster(driver: Driver, name: str, *, reporter: Reporter) -> tuple[str, ...]:
    """Bring one cluster's running nodes to its files, unless a plane of it cannot take them now."""
    state = observe_cluster(driver, name)
    if isinstance(state.recorded, SpecError):
        reporter.warn(f"the nodes' files are not updated: {state.recorded.what}; {state.recorded.fix}")
        return ()
    complete = [node for node in state.nodes if node.complete and node.labels.get(LABEL_ROLE) != ROLE_JOB]
    crew = Crew(spec=spec_of(state), members=tuple(present_member(node) for node in complete))
    if not complete or not all(plane.can_apply(state) for plane in planes_of(member.role for member in crew.members)):
        return ()
    running = [node.name for node in complete if node.status == "running"]
    return renew_nodes(driver, gather_files(driver, crew, state, {}), running, reporter=reporter)
