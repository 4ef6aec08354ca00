"""Requests to several hosts: all side by side, each with its own limit, and none waits for one that is unreachable."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import chain
from threading import Event, Lock
from typing import TYPE_CHECKING, Final, TypeVar

from gpuprov.core.errors import GpuprovError, HostNotReady, PartDone, Unreachable
from gpuprov.core.interrupts import postponed_interrupts
from gpuprov.core.side_by_side import ask_side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.ask import MemberRequest
    from gpuprov.link.members import MemberProcesses
    from gpuprov.shapes.base import Told

    Further = Callable[["HostAnswer"], Mapping[RemoteMachine, MemberRequest]]

Read = TypeVar("Read")

_AT_ONCE: Final = 64
_MOMENT_S: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class HostAnswer:
    """What came of a request to one host.

    Attributes:
        document: Its result; None where there is an error.
        away_since: When it was first found to be unreachable, in UTC; empty where it is not.
        asked_s: When it was asked, by the clock of this machine, and `heard_s` when it had answered.
    """

    machine: RemoteMachine
    document: Told | None = None
    error: GpuprovError | None = None
    away_since: str = ""
    asked_s: float = 0.0
    heard_s: float = 0.0


def ask_hosts(
    requests: Mapping[RemoteMachine, MemberRequest],
    members: MemberProcesses,
    *,
    reporter: Reporter,
    further: Further = lambda _answer: {},
) -> tuple[HostAnswer, ...]:
    """Ask each host what changes nothing; one that is unreachable has an answer too, which says so.

    Args:
        requests: What each host is asked.
        members: The way to the hosts.
        reporter: Is told warnings and notes.
        further: Which hosts an answer names, and what they are asked if they were not yet. Nobody waits for other
            answers before, so that all silent hosts together cost one limit.
    """
    if not requests:
        return ()
    asked, guard = set(requests), Lock()

    def ask(machine: RemoteMachine, request: MemberRequest) -> tuple[HostAnswer, ...]:
        answer = _answer(members, machine, request, reporter, None)
        named = further(answer)
        with guard:
            more = {machine: request for machine, request in named.items() if machine not in asked}
            asked.update(more)
        return (answer, *ask_hosts(more, members, reporter=reporter))

    questions = [partial(ask, machine, request) for machine, request in requests.items()]
    return tuple(chain.from_iterable(ask_side_by_side(questions, workers=_AT_ONCE)))


def work_on_hosts(
    requests: Mapping[RemoteMachine, MemberRequest], members: MemberProcesses, *, reporter: Reporter
) -> tuple[HostAnswer, ...]:
    """Have each host do something. One that fails ends no other one's work.

    On Ctrl-C all are told to end, undo what they have begun, and are waited for.

    Args:
        requests: What each host is to do.
        members: The way to the hosts.
        reporter: Is told how they get on.
    """
    if not requests:
        return ()
    stop = Event()
    with postponed_interrupts() as heard, ThreadPoolExecutor(min(len(requests), _AT_ONCE)) as pool:
        futures = [
            pool.submit(_answer, members, machine, request, reporter, stop) for machine, request in requests.items()
        ]
        going_on = set(futures)
        while going_on:
            _, going_on = wait(going_on, timeout=_MOMENT_S)
            if heard:
                stop.set()
    return tuple(future.result() for future in futures)


def require_all(answers: Sequence[HostAnswer]) -> None:
    """Go on only where every host has answered.

    Raises:
        PartDone: Some have not.
        GpuprovError: None has; it is the first one's error.
    """
    failed = {answer.machine.name: failure_of(answer) for answer in answers if answer.error is not None}
    if not failed:
        return
    first = next(iter(failed.values()))
    if len(failed) == len(answers) == 1:
        raise first
    kind = HostNotReady if len(failed) == len(answers) else PartDone
    raise kind(
        f"{len(failed)} of {len(answers)} hosts did not answer: {', '.join(failed)}",
        evidence="\n".join(map(_line, failed.values())),
        fix=first.fix,
    )


def part_error(
    failed: Mapping[str, GpuprovError], *, of: int, what: str = "", undone: bool = False, besides: str = ""
) -> GpuprovError | None:
    """The error of a verb that some hosts could not serve; None where all have.

    Args:
        failed: Why they could not.
        of: How many were asked.
        what: The first part of the error.
        undone: Whether the others have done nothing either.
        besides: What follows from it, as a line of evidence.
    """
    if not failed:
        return None
    first = next(iter(failed.values()))
    if len(failed) == of == 1:
        return first
    lines = [f"{error.what}: {error.evidence}" if error.evidence else error.what for error in failed.values()]
    kind = PartDone if len(failed) < of and not undone else _kind(first)
    return kind(
        f"{what or 'not all hosts answered'}: {', '.join(failed)} ({len(failed)} of {of} hosts)",
        evidence="\n".join([*lines, besides] if besides else lines),
        fix=first.fix,
    )


def failure_of(answer: HostAnswer) -> GpuprovError:
    """Why a host has no result; of one that is unreachable also since when."""
    error = answer.error
    if error is None:
        raise AssertionError(answer.machine.name)  # pragma: no cover - asked only where there is one
    if not answer.away_since:
        return error
    what = error.what.removesuffix(" is unreachable")
    words = f"{what} is unreachable since {answer.away_since}" if what != error.what else what
    evidence = error.evidence if what != error.what else f"{error.evidence}\nsince: {answer.away_since}"
    return _kind(error)(words, evidence=evidence, fix=error.fix)


def _kind(error: GpuprovError) -> type[GpuprovError]:
    """Its own, or the nearest above that takes any words: this machine's errors are as they were raised."""
    own = GpuprovError.__init__
    return next(kind for kind in type(error).__mro__ if kind.__init__ is own)  # type: ignore[misc]  # the question


def told_by(answer: HostAnswer) -> Told:
    """The result of a request to one host.

    Raises:
        GpuprovError: There is none, as `failure_of` says.
    """
    if answer.document is None:
        raise failure_of(answer)
    return answer.document


def read_each(
    answers: Sequence[HostAnswer], read: Callable[[Told, str], Read]
) -> tuple[dict[str, Read], dict[str, GpuprovError]]:
    """What hosts have told, by their names, and why the others have not told it.

    Args:
        answers: Of the hosts.
        read: Reads the result of a request to the host of that name. What cannot be read takes no other host's away.
    """
    told: dict[str, Read] = {}
    failed: dict[str, GpuprovError] = {}
    for answer in answers:
        host = answer.machine.name
        try:
            told[host] = read(told_by(answer), host)
        except GpuprovError as error:
            failed[host] = error
    return told, failed


def away_since(answers: Sequence[HostAnswer]) -> dict[str, str]:
    """Since when hosts are unreachable."""
    return {answer.machine.name: answer.away_since for answer in answers if answer.away_since}


def _line(error: GpuprovError) -> str:
    return f"{error.what}: {error.evidence}" if error.evidence else error.what


def _answer(
    members: MemberProcesses, machine: RemoteMachine, request: MemberRequest, reporter: Reporter, stop: Event | None
) -> HostAnswer:
    asked_s = time.time()
    try:
        told = members.ask(machine, request, reporter=reporter, stop=stop)
        return HostAnswer(machine=machine, document=told, asked_s=asked_s, heard_s=time.time())
    except Unreachable as error:
        return HostAnswer(machine=machine, error=error, away_since=members.places.mark_away(machine))
    except GpuprovError as error:
        members.places.mark_there(machine)
        return HostAnswer(machine=machine, error=error)
