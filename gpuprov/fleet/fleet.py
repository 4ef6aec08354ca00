"""The hosts of this user: this machine, which is called in process, and those that were added, over ssh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Generic

from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.core.side_by_side import ask_side_by_side
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.fleet.questions.question import Answer, Asked, Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.hosts import Hosts
    from gpuprov.machine.base import Host

HERE = "this machine"


@dataclass(frozen=True, kw_only=True)
class FleetAnswers(Generic[Answer]):
    """What hosts have answered.

    Attributes:
        answers: By host, this machine's first.
        failed: Why others did not.
        away: Since when hosts are unreachable.
    """

    answers: Mapping[str, Answer]
    failed: Mapping[str, GpuprovError] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)

    @property
    def error(self) -> GpuprovError | None:
        """The error of a verb that not all hosts have answered; None where all have."""
        if not self.failed:
            return None
        from gpuprov.link.several import part_error

        return part_error(self.failed, of=len(self.answers) + len(self.failed))

    def require_answer(self) -> None:
        """Go on only where a host has answered.

        Raises:
            GpuprovError: None has.
        """
        if not self.answers and self.error:
            raise self.error


class UnknownHosts(Mapping[str, "RemoteMachine"]):
    """Hosts whose inventory cannot be read: there are some, and whoever needs one is told what is wrong with it.

    What this machine has is found before others are asked, so that a fault in the inventory does not keep it away.
    """

    def __init__(self, error: GpuprovError) -> None:
        self.error = error

    def __getitem__(self, name: str) -> RemoteMachine:
        raise self.error

    def __iter__(self) -> Iterator[str]:
        raise self.error

    def __contains__(self, name: object) -> bool:
        return False

    def __len__(self) -> int:
        return 1


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """All hosts of a user, or those that a command is about.

    Attributes:
        here: This machine.
        others: Those that were added; none where this machine alone is meant.
        connect: Makes the way to them, when it is needed first.
        engine: Of this machine, if one was said: then it alone is meant. Empty for those that have what is meant.
    """

    here: Host
    others: Mapping[str, RemoteMachine]
    connect: Callable[[], Hosts]
    reporter: Reporter
    engine: str = ""

    @property
    def name_here(self) -> str:
        """What this machine is called among the hosts; one that was added may have its name."""
        return HERE if self.here.name in self.others else self.here.name

    def of_cluster(self, name: str) -> Fleet:
        """The hosts that may have nodes of a cluster: none is asked for one that is on this machine alone."""
        if not self.others:
            return self
        from gpuprov.cluster.here_alone import is_here_alone

        return replace(self, others={}) if is_here_alone(self.here, name) else self

    @property
    def known(self) -> Mapping[str, RemoteMachine]:
        """Those that were added, as far as they are known."""
        return {} if isinstance(self.others, UnknownHosts) else self.others

    @property
    def works_here(self) -> bool:
        """Whether nodes may be on this machine: it has an engine, or knows no other machine that has one."""
        return not self.others or any(door.installed() for door in self.here.engines)

    def find_here(self, names: Sequence[str]) -> set[str]:
        """Those of the nodes that this machine has; all, as far as it matters, where this machine alone is meant."""
        if not self.others:
            return set(names)
        from gpuprov.machine.survey import survey

        doors = [door for door in self.here.engines if door.installed()]
        seen = survey(doors, lambda driver: {name for name in names if driver.find_node(name) is not None})
        return {name for found in seen.answers.values() for name in found}

    def refuse_silence_here(self, names: Sequence[str]) -> None:
        """Refuse where nodes that no host has may be on an engine of this machine that does not answer.

        Raises:
            EngineError: There is one.
        """
        from gpuprov.cluster.find_engine import absent_beside_silence
        from gpuprov.core.names import fold
        from gpuprov.machine.survey import survey

        seen = survey([door for door in self.here.engines if door.installed()], lambda driver: driver.name)
        if seen.silent:
            where = "on the engines and hosts that respond"
            raise absent_beside_silence(f"node {fold(list(names))}", seen, where=where)

    def ask(self, question: Question[Asked, Answer], order: Asked) -> FleetAnswers[Answer]:
        """Ask all side by side. A machine without an engine that knows hosts does not answer what needs one."""
        ways: list[Callable[[], FleetAnswers[Answer]]] = []
        if self.works_here or not question.needs_engine:
            ways.append(partial(self._ask_here, question, order))
        if self.others:
            ways.append(partial(self.ask_others, question, order))
        answers: dict[str, Answer] = {}
        failed: dict[str, GpuprovError] = {}
        away: dict[str, str] = {}
        for told in ask_side_by_side(ways, workers=len(ways)):
            answers |= told.answers
            failed |= told.failed
            away |= told.away
        return FleetAnswers(answers=answers, failed=failed, away=away)

    def ask_others(self, question: Question[Asked, Answer], order: Asked) -> FleetAnswers[Answer]:
        """Ask those that were added."""
        if isinstance(self.others, UnknownHosts):
            return FleetAnswers(answers={}, failed={"the hosts that were added": self.others.error})
        return ask_others(question, order, self.others, self.connect())

    def _ask_here(self, question: Question[Asked, Answer], order: Asked) -> FleetAnswers[Answer]:
        try:
            return FleetAnswers(answers={self.name_here: question.here(order, self.here, self.reporter)})
        except GpuprovError as error:
            return FleetAnswers(answers={}, failed={self.name_here: error})


def require_added(name: str, known: Mapping[str, RemoteMachine]) -> RemoteMachine:
    """The host that was added by that name.

    Raises:
        UsageError: None was.
    """
    if name not in known:
        raise UsageError(
            f"no host {name:.60} was added",
            evidence=f"hosts: {', '.join(known) or 'none'}",
            fix=f"gpuprov host add {name:.60} --address ADDRESS; or list them: gpuprov host list",
        )
    return known[name]


def ask_others(
    question: Question[Asked, Answer], order: Asked, others: Mapping[str, RemoteMachine], hosts: Hosts
) -> FleetAnswers[Answer]:
    """Ask these hosts alone."""
    from gpuprov.link.answers import read_answer
    from gpuprov.link.ask import MemberRequest
    from gpuprov.link.several import away_since, read_each

    request = MemberRequest(order=order, total_s=scaled_limit_s(question.total_s))
    answers = hosts.ask(dict.fromkeys(others.values(), request))
    told, failed = read_each(answers, partial(read_answer, question.answer))
    return FleetAnswers(answers=told, failed=failed, away=away_since(answers))
