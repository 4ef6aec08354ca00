"""The way to other hosts, as stories over several of them are handed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpuprov.link.connection import SshConnection
from gpuprov.link.several import ask_hosts, work_on_hosts
from gpuprov.link.trees import read_tree_there, write_tree_there

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.ask import MemberRequest
    from gpuprov.link.members import MemberProcesses
    from gpuprov.link.several import Further, HostAnswer

    HostAnswers = Sequence[HostAnswer]


class Hosts(Protocol):
    """The way to other hosts."""

    def ask(
        self, requests: Mapping[RemoteMachine, MemberRequest], further: Further = lambda _answer: {}
    ) -> HostAnswers:
        """Ask what changes nothing, of hosts too that an answer names."""

    def work(self, requests: Mapping[RemoteMachine, MemberRequest]) -> HostAnswers:
        """Have each do something."""

    def is_away(self, machine: RemoteMachine) -> bool:
        """Whether it is known not to have answered when it was last asked."""

    def attach(self, machine: RemoteMachine, command: Sequence[str], *, terminal: bool) -> int:
        """Run a command there with this process's streams; returns its exit status."""

    def argv(self, machine: RemoteMachine, command: Sequence[str]) -> list[str]:
        """The command here that runs one there."""

    def close(self) -> None:
        """Let go of what is kept for the next question, of which there may be more."""

    def read_tree(self, machine: RemoteMachine, place: Sequence[str], take: Callable[[bytes], object]) -> str:
        """Hand on a tar of a node there, by engine, node and path; returns what the node said."""

    def write_tree(self, machine: RemoteMachine, place: Sequence[str], tar: Iterable[bytes]) -> None:
        """Put a tar into a node there."""


@dataclass(frozen=True, kw_only=True)
class HostsBySsh:
    """By ssh, each over its one connection."""

    members: MemberProcesses
    reporter: Reporter

    def ask(
        self, requests: Mapping[RemoteMachine, MemberRequest], further: Further = lambda _answer: {}
    ) -> HostAnswers:
        """All side by side."""
        return ask_hosts(requests, self.members, reporter=self.reporter, further=further)

    def work(self, requests: Mapping[RemoteMachine, MemberRequest]) -> HostAnswers:
        """All side by side."""
        return work_on_hosts(requests, self.members, reporter=self.reporter)

    def is_away(self, machine: RemoteMachine) -> bool:
        """By the mark that was left then."""
        return self.members.places.is_away(machine)

    def attach(self, machine: RemoteMachine, command: Sequence[str], *, terminal: bool) -> int:
        """With this process's terminal, or without."""
        return SshConnection(machine=machine, places=self.members.places).attach(command, terminal=terminal)

    def argv(self, machine: RemoteMachine, command: Sequence[str]) -> list[str]:
        """Of ssh, without a terminal."""
        return SshConnection(machine=machine, places=self.members.places).argv(command)

    def close(self) -> None:
        """End the gpuprov of the hosts."""
        self.members.close()

    def read_tree(self, machine: RemoteMachine, place: Sequence[str], take: Callable[[bytes], object]) -> str:
        """Over the same connection."""
        return read_tree_there(SshConnection(machine=machine, places=self.members.places), place, take)

    def write_tree(self, machine: RemoteMachine, place: Sequence[str], tar: Iterable[bytes]) -> None:
        """Over the same connection."""
        write_tree_there(SshConnection(machine=machine, places=self.members.places), place, tar)
