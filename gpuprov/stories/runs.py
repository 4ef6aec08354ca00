"""The containers of `gpuprov run`, on this machine and on hosts that were added: start, find, stop and remove them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.names import name_of_run
from gpuprov.core.outcome import Outcome
from gpuprov.core.waiting import Wait
from gpuprov.fleet.done import Done
from gpuprov.fleet.find_hosted import lines_of
from gpuprov.fleet.fleet import ask_others, require_added
from gpuprov.fleet.member.runs import serve_run
from gpuprov.fleet.questions.runs import RUNS
from gpuprov.lifecycle.runs import absent_runs, end_runs, look_at_runs, note_absent
from gpuprov.link.answers import read_answer
from gpuprov.link.ask import MemberRequest
from gpuprov.link.several import part_error, read_each, told_by
from gpuprov.shapes.base import changed
from gpuprov.shapes.run_order import EndRunsOrder, RunsOrder
from gpuprov.shapes.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.fleet.fleet import Fleet
    from gpuprov.link.address import RemoteMachine
    from gpuprov.shapes.run_order import RunOrder

_INTERRUPTED: Final = 130
_KILLED: Final = 137
_END_S: Final = 20.0


def begin_run(fleet: Fleet, order: RunOrder, host: str | None) -> Runs:
    """Start one that goes on by itself, here or on a host that was added; returns it alone.

    Raises:
        UsageError: There is no such host, or it cannot be had as ordered; nothing was changed.
        GpuprovError: It failed, here or there; nothing is left of it.
    """
    if host is None:
        return serve_run(order, fleet.here, fleet.reporter)
    machine = require_added(host, fleet.others)
    (told,) = fleet.connect().work({machine: MemberRequest(order=order)})
    runs = read_answer(Runs, told_by(told), machine.name)
    if len(runs.runs) != 1:
        raise HostNotReady(
            f"{machine.name} gave an unexpected answer", evidence=f"{len(runs.runs)} containers", fix="gpuprov run ps"
        )
    return runs


def run_there(fleet: Fleet, order: RunOrder, host: str, follow: Callable[[RemoteMachine, str], int]) -> int:
    """Run a command on a host that was added, and return its exit status; nothing is left of it.

    It is left to the engine there, and followed from here: what its variables hold passes no command line, and where
    the connection breaks, as by Ctrl-C, it is removed by another one.

    Args:
        follow: Shows what the container of that name writes until it ends; its exit status is 0 then.

    Raises:
        GpuprovError: As `begin_run` says, or the host does not answer any more: the container goes on then.
    """
    machine = require_added(host, fleet.others)
    (row,) = begin_run(fleet, changed(order, detach=True), host).runs
    status = _INTERRUPTED
    try:
        status = follow(machine, row.name)
        return _end_of(fleet, machine, row.name) if status == 0 else max(status, _INTERRUPTED)
    finally:
        order_end = EndRunsOrder(act="rm", names=(row.name,), force=True)
        told_by(*fleet.connect().work({machine: MemberRequest(order=order_end)}))


def _end_of(fleet: Fleet, machine: RemoteMachine, name: str) -> int:
    """The exit status of a command whose log has ended: its engine may know a moment later."""

    def look() -> int | None:
        told = ask_others(RUNS, RunsOrder(), {machine.name: machine}, fleet.connect())
        told.require_answer()
        return next((row.exit_code for row in told.answers[machine.name].runs if row.name == name), _KILLED)

    wait = Wait(what=f"{name} to end", timeout_s=_END_S, fix=f"gpuprov run logs {name}", interval_s=0.2)
    return wait.until(look, lambda code: code is not None) or 0


def find_host_of_run(fleet: Fleet, name: str) -> RemoteMachine | None:
    """The host that has a container of `gpuprov run`; None where this machine has it.

    Raises:
        UsageError: No host that answers has it, or more than one.
        PartDone: None that answers has it, and some do not answer.
    """
    return _locate(fleet, [name])[name_of_run(name)]


def end_runs_anywhere(fleet: Fleet, order: EndRunsOrder) -> Done:
    """Stop or remove containers, each on the machine that has it.

    Raises:
        UsageError: There is none of a name, or one that is to be removed runs; nothing was changed on its host.
        PartDone: No host that answers has one, and some do not answer.
    """
    homes = _locate(fleet, order.names, may_lack=order.act == "rm")
    here = tuple(name for name, home in homes.items() if home is None)
    lines: list[str] = []
    if here:
        lines += end_runs(changed(order, names=here), fleet.here, reporter=fleet.reporter).changed
    there = {home: tuple(name for name, one in homes.items() if one == home) for home in homes.values() if home}
    if not there:
        return Done(outcome=_outcome(lines))
    requests = {home: MemberRequest(order=changed(order, names=names)) for home, names in there.items()}
    done, failed = read_each(fleet.connect().work(requests), lines_of)
    lines += chain.from_iterable(done.values())
    return Done(outcome=_outcome(lines), failed=failed, asked=len(there), lack="hosts did not do their part")


def _outcome(lines: Sequence[str]) -> Outcome:
    return Outcome(changed=tuple(lines))


def _locate(fleet: Fleet, names: Sequence[str], *, may_lack: bool = False) -> dict[str, RemoteMachine | None]:
    """The host of each, by the name without the engine's ending; None for this machine, whose own come first.

    Args:
        may_lack: Whether one that is certainly nowhere is said and left out.

    Raises:
        UsageError: A name is nowhere, or on more than one other host.
        GpuprovError: It may be on a host that does not answer.
    """
    wanted = tuple(dict.fromkeys(map(name_of_run, names)))
    if not fleet.others:
        return dict.fromkeys(wanted)
    mine = look_at_runs(fleet.here, reporter=fleet.reporter) if fleet.works_here else None
    here = set(mine.by_name) if mine else set()
    homes: dict[str, RemoteMachine | None] = dict.fromkeys(name for name in wanted if name in here)
    if len(homes) == len(wanted):
        return homes
    told = fleet.ask_others(RUNS, RunsOrder())
    there: dict[str, list[str]] = {}
    for host, runs in told.answers.items():
        for row in runs.runs:
            there.setdefault(row.name, []).append(host)
    for name in wanted:
        if len(there.get(name, ())) > 1 and name not in homes:
            raise _several_have(name, [fleet.others[host] for host in there[name]])
    homes |= {name: fleet.others[there[name][0]] for name in wanted if name not in homes and name in there}
    absent = [name for name in wanted if name not in homes]
    if absent:
        what = f"no host that answers has a container {', '.join(absent)} of `gpuprov run`"
        error = part_error(told.failed, of=len(told.answers) + len(told.failed), what=what)
        silent = mine.errors if mine else {}
        if error or silent or not may_lack:
            raise error or absent_runs(absent, {*here, *there}, silent)
    return {name: homes[name] for name in note_absent(wanted, homes, reporter=fleet.reporter)}


def _several_have(name: str, machines: Sequence[RemoteMachine]) -> UsageError:
    ways = [f"ssh {machine.destination} gpuprov run logs {name}" for machine in machines]
    return UsageError(
        f"more than one host has a container {name} of `gpuprov run`",
        evidence=", ".join(machine.name for machine in machines),
        fix=f"run the command on the container's host: {', or '.join(ways)}",
    )
