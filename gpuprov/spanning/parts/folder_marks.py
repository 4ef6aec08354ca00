"""Marks that hosts leave in the folder that their nodes share when they are first asked, and take when they plan.

Each host takes the mark of another one, in a ring: where all find theirs, all have one folder, and nothing more is
asked. `share_over_hosts` has a proof of its own for all other cases, and the words for what is wrong.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.planes.over_hosts.shared_places import shared_places
from gpuprov.spanning.parts.share_over_hosts import refuse_unlike, share_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuprov.host.remote.ask import MemberRequest
    from gpuprov.host.remote.hosts import Hosts
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.planes.over_hosts.host_part import HostPart
    from gpuprov.spanning.parts.over_hosts import SpanningCluster
    from gpuprov.spanning.parts.planned_part import PlannedPart
    from gpuprov.spec.models import ClusterSpec


class FolderMarks:
    """Those that hosts have left, and nobody has taken yet."""

    def __init__(self) -> None:
        self._left: dict[RemoteMachine, tuple[HostPart, ClusterSpec]] = {}

    def forget(self, hosts: Hosts) -> None:
        """Have each host remove the mark that it has left; a later one removes it where this fails."""
        requests: dict[str, dict[RemoteMachine, MemberRequest]] = {}
        for machine, (part, spec) in self._left.items():
            for where in shared_places(spec):
                if where.folder in part.shares and not hosts.is_away(machine):
                    request = share_request(where, spec, part.engine, "remove", [part.mark])
                    requests.setdefault(where.folder, {})[machine] = request
        for one in requests.values():
            hosts.ask(one)

    def note(self, seen: SpanningCluster, spec: ClusterSpec) -> None:
        """Hosts have left marks, asked with this spec."""
        for machine, part in seen.marked.items():
            folder = min(part.shares, key=len)  # those of services are beside it
            self._left.setdefault(machine, (part, replace(spec, share=folder)))

    def hand_on(self) -> None:
        """Leave them to somebody else."""
        self._left.clear()

    def are_taken(self, ring: Mapping[str, str], planned: Mapping[str, PlannedPart]) -> bool:
        """Whether all hosts of a ring have found the mark that they were to take; false where there was no ring."""
        took = {mark for host, mark in ring.items() if planned[host].took}
        self._left = {machine: told for machine, told in self._left.items() if told[0].mark not in took}
        return bool(ring) and took == {*ring.values()}


def plan_ring(spec: ClusterSpec, seen: SpanningCluster) -> dict[str, str]:
    """By host, the mark of another one that it is to take; nothing where that would not prove what has to be."""
    parts = {host.name: seen.parts[host.name] for host in spec.hosts if host.name in seen.parts}
    places = shared_places(spec)
    folders = {where.folder for where in places}
    if not places or any(part.shares.keys() != folders for part in parts.values()):
        return {}
    for where in places:
        looks = {host: part.shares[where.folder] for host, part in parts.items()}
        if not all(look.mark for look in looks.values()):
            return {}
        try:
            refuse_unlike(looks, where, spec, seen)
        except UsageError:
            return {}
    marks = [part.mark for part in parts.values()]
    return dict(zip(parts, [marks[-1], *marks[:-1]], strict=True))


@contextmanager
def marks_of(found: SpanningCluster | None, hosts: Hosts) -> Iterator[FolderMarks]:
    """Those that hosts have left when the cluster was found, and more; what is not taken is removed after the block."""
    marks = FolderMarks()
    try:
        if found and found.spec:
            marks.note(found, found.spec)
        yield marks
    finally:
        marks.forget(hosts)


@contextmanager
def marks_kept(found: SpanningCluster, hosts: Hosts) -> Iterator[None]:
    """Those that hosts have left when the cluster was found stay for who takes them, unless the block fails."""
    with marks_of(found, hosts) as marks:
        yield
        marks.hand_on()
