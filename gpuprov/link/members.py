"""The gpuprov of other hosts: each is started with its first request, and kept for the next one."""

from __future__ import annotations

import time
from itertools import takewhile
from threading import Lock
from typing import TYPE_CHECKING, Final

from gpuprov.link.ask import PARTING_S, MemberProcess
from gpuprov.link.connection import SshConnection

if TYPE_CHECKING:
    from threading import Event

    from msgspec import Raw

    from gpuprov.core.reporter import Reporter
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.ask import MemberRequest
    from gpuprov.link.places import Places

_MOST: Final = 64  # that are kept: each has a process here, and some open files


class MemberProcesses:
    """Those of a run, which closes them at its end.

    Args:
        places: Where connections are.
    """

    def __init__(self, places: Places) -> None:
        self.places = places
        self._idle: dict[RemoteMachine, MemberProcess] = {}
        self._guard = Lock()

    def ask(
        self, machine: RemoteMachine, request: MemberRequest, *, reporter: Reporter, stop: Event | None = None
    ) -> Raw:
        """As `MemberProcess.ask`; several threads may ask, one host or many."""
        member = self._take(machine)
        try:
            return member.ask(request, reporter=reporter, stop=stop)
        finally:
            self._keep(machine, member)

    def close(self) -> None:
        """End those that are kept, and wait for a moment until they have ended."""
        with self._guard:
            idle, self._idle = list(self._idle.values()), {}
        for member in idle:
            member.end()
        until_s = time.monotonic() + PARTING_S
        for member in idle:
            member.close(until_s - time.monotonic())

    def _take(self, machine: RemoteMachine) -> MemberProcess:
        with self._guard:
            kept = self._idle.pop(machine, None)
        if kept is not None and kept.usable:
            return kept
        if kept is not None:
            kept.end()
            kept.close()
        return MemberProcess(SshConnection(machine=machine, places=self.places))

    def _keep(self, machine: RemoteMachine, member: MemberProcess) -> None:
        with self._guard:
            over = list(takewhile(lambda one: not self._idle[one].usable, self._idle))  # the oldest first
            parting = [self._idle.pop(one) for one in over]
            if member.usable and machine not in self._idle and len(self._idle) < _MOST:
                self._idle[machine] = member
            else:
                parting.append(member)
        for one in parting:
            one.end()
            one.close()
