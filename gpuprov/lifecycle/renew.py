"""Bring running nodes to their files, by their roles, and wait until they take work."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.node_variables import SSH_FILE
from gpuprov.cluster.services import reload_ssh
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.side_by_side import each
from gpuprov.lifecycle.files import find_stale, gather_files, is_apart, present_crew, renewal_lines
from gpuprov.lifecycle.people import settle_people
from gpuprov.lifecycle.sssd import settle_sssd
from gpuprov.roles.registry import roles_of
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.drivers.networks import NetworkState
    from gpuprov.lifecycle.changing import Readings
    from gpuprov.lifecycle.files import FileSet, Reading


@dataclass(frozen=True, kw_only=True)
class Renewal:
    """Nodes that were brought to their files.

    Attributes:
        changed: One line for each set of files that nodes lacked, and for each node that a killed run had kept from
            work.
        words: The word of its role for each node.
    """

    changed: tuple[str, ...]
    words: Mapping[str, str]


def renew_nodes(
    driver: Driver,
    files: FileSet,
    old: Sequence[str],
    *,
    reporter: Reporter,
    new: Sequence[str] = (),
    reading: Reading | None = None,
) -> Renewal:
    """Bring nodes that run to their files, have services read them, and wait until all nodes that run are ready.

    Args:
        files: The files of the whole cluster.
        old: Nodes that run and may hold older files.
        reporter: Hears each node's state.
        new: Nodes that run and were made with these files.
        reading: What was read from nodes before; the others are read now.
    """
    stale = found = find_stale(driver, old, files.of, reading)
    settle_people(driver, stale, files.of, reporter=reporter)
    settle_sssd(driver, stale, files.of, new=new, reporter=reporter)
    stale = {name: tuple(file for file in lacking if not is_apart(file)) for name, lacking in stale.items()}
    stale = {name: lacking for name, lacking in stale.items() if lacking}
    words: dict[str, str] = {}
    undone: list[str] = []
    up = {*old, *new}
    crew = replace(files.crew, members=tuple(member for member in files.crew.members if member.name in up))
    known = [role.name for role in files.roles]
    for role in files.roles:
        mine = {member.name for member in crew.of(role.name)}
        with reporter.phase(role.name) if role.has_services else nullcontext():
            role.apply(driver, crew, {name: lacking for name, lacking in stale.items() if name in mine}, files.of)
            ready = role.wait_ready(driver, crew, reporter)
        words |= ready.words
        undone += ready.undone
    others = {member.name for member in crew.members if member.role not in known}
    for name in others & set(stale):
        driver.push(name, stale[name])
    told = [name for name, lacking in stale.items() if any(file.path == SSH_FILE for file in lacking)]
    each(partial(reload_ssh, driver), told)
    return Renewal(changed=(*renewal_lines(files.roles, found), *undone), words=words)


def renew_clusters(
    driver: Driver, readings: Readings, *, reporter: Reporter, networks_stay: bool = False
) -> tuple[str, ...]:
    """After nodes came, went, started or stopped: bring the others' files to that; one line for each change.

    Args:
        readings: What was read from them before, by cluster.
        reporter: Hears each node's state.
        networks_stay: Whether the networks are as they were when that was read; then they are not listed again.
    """
    return tuple(
        line
        for name, reading in sorted(readings.items())
        for line in renew_cluster(
            driver,
            name,
            reading,
            reporter=reporter,
            networks=reading.state.networks if networks_stay else None,
        )
    )


def renew_cluster(
    driver: Driver,
    name: str,
    reading: Reading,
    *,
    reporter: Reporter,
    networks: Sequence[NetworkState] | None = None,
) -> tuple[str, ...]:
    """Bring one cluster's running nodes to its files, unless a role of it cannot take them now."""
    state = observe_cluster(driver, name, networks=networks)
    if isinstance(state.recorded, SpecError):
        reporter.warn(f"the nodes' files are not updated: {state.recorded.what}; {state.recorded.fix}")
        return ()
    crew = present_crew(state)
    roles = [member.role for member in crew.members]
    if not roles or not all(role.can_apply(state) for role in roles_of(roles)):
        return ()
    there = {member.name for member in crew.members}
    running = [node.name for node in state.nodes if node.status == "running" and node.name in there]
    files = gather_files(driver, crew, state, {}, reading)
    return renew_nodes(driver, files, running, reporter=reporter, reading=reading).changed
