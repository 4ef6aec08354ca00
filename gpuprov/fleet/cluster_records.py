"""What hosts have recorded of a whole cluster: of those that have recorded the same, one is asked.

It says the same on all hosts but those that were unreachable, and its size grows with their number: told by each, it
would grow with the square.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from gpuprov.core.errors import GpuprovError
from gpuprov.core.silence_limit import QUESTION_S, scaled_limit_s
from gpuprov.fleet.member.told_part import fingerprint_of, read_record
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import told_by
from gpuprov.shapes.orders import RecordOrder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.fleet.member.host_part import HostPart
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import Hosts
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.whole import WholeCluster

    Record = tuple[ClusterSpec | None, WholeCluster | None]


class ClusterRecords:
    """What was recorded, by fingerprint.

    Args:
        cluster: Its name.
        hosts: The way to the hosts.
        parts: What hosts told a moment ago, with what they have recorded.
    """

    def __init__(self, cluster: str, hosts: Hosts, parts: Iterable[HostPart] = ()) -> None:
        self._cluster, self._hosts = cluster, hosts
        self._known: dict[str, Record] = {part.record: (part.spec, part.whole) for part in parts if part.record}
        self._begun: set[str] = set()
        self._guard = Lock()

    def complete_first(self, machine: RemoteMachine, part: HostPart) -> HostPart:
        """The part of a host with what it has recorded, if no other host was asked for the same yet.

        So nobody waits for who asks for the same at this moment.
        """
        with self._guard:
            is_first = part.record not in self._begun
            self._begun.add(part.record)
        if is_first:
            with suppress(GpuprovError):  # another host is asked later
                return self.complete(machine, part)
        return part

    def complete(self, machine: RemoteMachine, part: HostPart) -> HostPart:
        """The part of a host with what it has recorded.

        Raises:
            GpuprovError: It does not tell that any more.
        """
        if not part.record:
            return part
        if part.record not in self._known:
            order = RecordOrder(cluster=self._cluster, engine=part.engine)
            request = MemberRequest(order=order, total_s=scaled_limit_s(QUESTION_S))
            (answer,) = self._hosts.ask({machine: request})
            spec, whole = read_record(told_by(answer), host=machine.name, cluster=self._cluster)
            part = replace(part, record=fingerprint_of(spec, whole))  # it may have changed in this moment
            self._known[part.record] = (spec, whole)
        spec, whole = self._known[part.record]
        return replace(part, spec=spec, whole=whole)
