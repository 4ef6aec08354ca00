"""What verbs share where a cluster spans hosts: how it is found, and how what its hosts say is shown.

The stories over hosts load much of gpuprov: they are imported only where hosts were added.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpuprov.cli.failure import show_result as show_result  # noqa: PLC0414

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.core.reporter import Reporter
    from gpuprov.fleet.hosted_cluster import SpanningCluster
    from gpuprov.host.remote.hosts import HostsBySsh
    from gpuprov.host.remote.machine import RemoteMachine


def remembered_hosts() -> Mapping[str, RemoteMachine]:
    """Those that `host add` has remembered."""
    from gpuprov.host.remote.inventory import read_machines
    from gpuprov.host.remote.places import ensure_places

    return read_machines(ensure_places().inventory)


def way_to_hosts(session: Session, reporter: Reporter | None = None) -> HostsBySsh:
    """By ssh; what hosts say of their progress, `reporter` is told, or else the session's."""
    from gpuprov.host.remote.hosts import HostsBySsh

    return HostsBySsh(members=session.members, reporter=reporter or session.reporter)


def find_spanning_cluster(session: Session, name: str, engine: str | None) -> SpanningCluster | None:
    """The cluster of that name where it spans hosts; None where it is on this host alone, or nowhere.

    Without hosts that were added, nobody is asked.
    """
    from gpuprov.cli.open_fleet import open_fleet

    fleet = open_fleet(session, engine)
    if not fleet.others:
        return None
    from gpuprov.fleet.hosted_cluster import find_over_hosts

    return find_over_hosts(fleet, name)


def host_of_node(session: Session, node: str, engine: str | None) -> RemoteMachine | None:
    """The host that was added and has a node; None where this host has it, or no hosts were added."""
    known = remembered_hosts() if engine is None else {}
    if not known:
        return None
    from gpuprov.fleet.hosted_cluster import get_host_of_node

    return None if nodes_here(session, [node]) else get_host_of_node(node, known, way_to_hosts(session))[0]


def run_on_host(session: Session, machine: RemoteMachine, words: Sequence[str]) -> int:
    """Run a command of the gpuprov there, with this terminal's input and output; returns its exit status."""
    from gpuprov.host.remote.install_paths import PROGRAM

    said = {"--quiet": session.quiet, "--verbose": session.verbose, "--json": session.as_json}
    flags = [flag for flag, given in said.items() if given]
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and not session.as_json
    session.members.close()  # that may take hours
    return way_to_hosts(session).attach(machine, [PROGRAM, *flags, *words], terminal=terminal)


def run_where_it_is(session: Session, node: str, engine: str | None, words: Sequence[str]) -> int | None:
    """Run a command of gpuprov on the host that has a node; None where this machine has it, or no hosts were added."""
    machine = host_of_node(session, node, engine)
    return None if machine is None else run_on_host(session, machine, words)


def nodes_here(session: Session, names: Sequence[str]) -> set[str]:
    """Those of the nodes that this machine has."""
    from gpuprov.host.survey import survey

    doors = [door for door in session.host.engines if door.installed()]
    seen = survey(doors, lambda driver: {name for name in names if driver.find_node(name) is not None})
    return {name for found in seen.answers.values() for name in found}
