"""`up` and `down` over hosts, of which one breaks off in the middle of a request: its member, or the way to it.

The controller lives on: it reports the host, the others do their part, and the next run gives what one alone does.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import GpuprovError, HostNotReady, PartDone
from gpuprov.fleet.find_hosted import find_spanning
from gpuprov.fleet.hosts_down import down_over_hosts
from gpuprov.lifecycle.leaving import SPARE_JOBS
from gpuprov.link import ask as ask_module
from gpuprov.link import members
from gpuprov.link.lines import render_line
from gpuprov.link.places import Places
from gpuprov.link.several import ask_hosts
from gpuprov.shapes.base import changed, raw
from gpuprov.shapes.lines import Result
from tests.fakes.broken_member import BREAKS, HELLO, PATIENCE_S, PROGRESS, BrokenConnection
from tests.fakes.faults import Killed
from tests.fakes.hosts_in_worlds import keep_keys_below
from tests.unit.stories.test_hosts_up import NAMES
from tests.unit.stories.test_kills_over_hosts import STORIES, HostsWithFaults, Lab, begin, impatient

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.link.address import RemoteMachine
    from gpuprov.link.ask import MemberRequest
    from gpuprov.link.several import HostAnswer
    from tests.conftest import Recording
    from tests.fakes.broken_member import Break

__all__ = ["impatient"]
HEAD = NAMES[0]  # its first node runs the controller of Slurm
READY = [(f"c{number:03d}", "idle", "ok") for number in range(4)]
_SERIAL = re.compile(r'"serial":\d+')


class Broken(BaseException):
    """The member hears that nobody listens any more."""


class BreakingHosts(HostsWithFaults):
    """Hosts of which one breaks off at a step.

    Attributes:
        ends: How.
        broken: Which one did, and in which request.
    """

    def __init__(self, folder: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, recording)
        (folder / "runtime").mkdir()
        self._places = Places(config=folder, runtime=folder / "runtime")
        self._monkeypatch = monkeypatch
        self.ends = BREAKS["the member is killed in the middle of a line"]
        self.broken: tuple[str, str] | None = None

    def break_at(self, step: int, ends: Break) -> None:
        """Break off at this step, counted from 1."""
        self.ends, self.broken = ends, None
        self.faults.raise_at(Killed() if ends.dies else Broken(), nth=step)

    def mend(self) -> None:
        """From here on all goes well."""
        self.faults.clear()
        self.away.clear()

    def _serve(self, machine: RemoteMachine, request: MemberRequest) -> HostAnswer:
        asked = len(self.asked)
        try:
            return super()._serve(machine, request)
        except (Killed, Broken):
            began, answered = len(self.asked) > asked, self.faults.passed[-1][0] == f"answer:{request.verb}"
            self.broken = machine.name, request.verb
            for world in self.worlds.values():
                world.slurm.forget_runs()
            if not self.ends.dies:
                self.away.add(machine.name)
            line = (
                render_line(Result(document=raw(json.dumps({"changed": []}))))
                if answered
                else PROGRESS
                if began
                else HELLO
            )
            return self._hear(machine, request, HELLO + PROGRESS if began else b"", line)

    def _hear(self, machine: RemoteMachine, request: MemberRequest, said: bytes, line: bytes) -> HostAnswer:
        """What the controller makes of a connection over which only this came."""
        way = partial(BrokenConnection, said=said, line=line, ends=self.ends)
        with self._monkeypatch.context() as patch:
            patch.setattr(members, "SshConnection", way)
            patch.setattr(ask_module, "SILENCE_S", PATIENCE_S)
            (answer,) = ask_hosts({machine: request}, members.MemberProcesses(self._places), reporter=self._reporter)
        return answer


class BreakingLab(Lab):
    hosts: BreakingHosts


@pytest.fixture
def lab(tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> BreakingLab:
    keep_keys_below(tmp_path / "data", monkeypatch)
    return BreakingLab(BreakingHosts(tmp_path, recording, monkeypatch), recording)


def attempt(lab: BreakingLab, name: str) -> GpuprovError | None:
    """The verb, and what it ends with."""
    try:
        if name == "cluster down":
            seen = find_spanning("lab", lab.hosts.machines, lab.hosts)
            return down_over_hosts(seen, lab.hosts, SPARE_JOBS).error if seen else None
        return lab.up(2 if name == "cluster up, shrinking" else 4).error
    except GpuprovError as error:
        return error


def without_serial(seen: dict[str, Any]) -> dict[str, Any]:
    """The number of the newest state says only how often something was changed."""
    for there in seen.values():
        there["networks"] = {
            name: changed(network, labels={key: _SERIAL.sub("", text) for key, text in network.labels.items()})
            for name, network in there["networks"].items()
        }
    return seen


@dataclass(frozen=True, kw_only=True)
class Told:
    """A story, what it leaves where nothing disturbs it, and its steps: the host, the request, what is done."""

    name: str
    wanted: dict[str, Any]
    steps: list[tuple[str, str, str]]

    def one_of_each_kind(self) -> list[int]:
        """Numbers of steps: of each kind of step in each request, one on some host."""
        kinds: dict[tuple[str, str], list[int]] = {}
        for number, (_, verb, step) in enumerate(self.steps, 1):
            kinds.setdefault((verb, step), []).append(number)
        dice = random.Random(self.name)
        return [dice.choice(numbers) for numbers in kinds.values()]


@pytest.fixture(params=STORIES)
def told(request: pytest.FixtureRequest, lab: BreakingLab) -> Told:
    begin(lab, STORIES[request.param])
    assert attempt(lab, request.param) is None
    steps, host, verb = [], "", ""
    for step, subject in lab.hosts.faults.passed:
        if step.startswith("ask:"):
            host, verb = subject, step.removeprefix("ask:")
        steps.append((host, verb, step.removesuffix(f":{verb}")))
    return Told(name=request.param, wanted=without_serial(lab.hosts.look()), steps=steps)


def judge(lab: BreakingLab, told: Told, where: tuple[str, str, str, Break], error: GpuprovError) -> None:
    """What is told, and what the other host has done."""
    host, verb, _, ends = where
    assert host in f"{error.what} {error.evidence}", where
    assert error.evidence, where
    assert error.fix, where
    assert error.fix.count("again") <= 1, where
    other = next(name for name in lab.hosts.worlds if name != host)
    if verb in ("up", "ready"):
        assert isinstance(error, PartDone), where
        assert error.what.startswith(f"hosts did not do their part: {host} (1 of 2"), where
        assert lab.hosts.worlds[other].engine.nodes or told.name == "cluster up, shrinking", where
    elif verb == "down":
        assert isinstance(error, HostNotReady if host == HEAD and ends.newline else PartDone), where
        assert bool(lab.hosts.worlds[other].engine.nodes) == (host == HEAD), where
    elif verb in ("plan", "out-of-service"):
        assert isinstance(error, HostNotReady), where
    if not ends.newline:
        assert re.search("is unreachable|connection to .* was lost", str(error)), where


def break_and_go_on(lab: BreakingLab, told: Told, step: int, ends: Break) -> None:
    """Break off at a step, look at what is told, and run the verb again."""
    begin(lab, STORIES[told.name])
    lab.hosts.break_at(step, ends)
    error = attempt(lab, told.name)
    host, verb, what = told.steps[step - 1]
    where = (host, verb, what, ends)
    assert lab.hosts.broken == (host, verb), where
    if error is None:
        assert verb == "record", f"{where}: only what another host has recorded too can be done without"
    else:
        judge(lab, told, where, error)
    lab.hosts.mend()  # the next run waits for ever where a lock is left
    if told.name == "cluster up, growing" and verb in ("part", "record"):  # the new nodes are on the other host
        assert attempt(lab, told.name) is None, where
        assert [(row.name, row.work, row.health) for row in lab.find().rows] == READY, where
    else:
        assert attempt(lab, told.name) is None, where
        assert without_serial(lab.hosts.look()) == told.wanted, where
    assert not STORIES[told.name].verb(lab), where


@pytest.mark.sampled(2)
@pytest.mark.slow
def test_broken_at_each_kind_of_step(lab: BreakingLab, told: Told) -> None:
    steps = told.one_of_each_kind()
    assert len(steps) >= 10
    for step, ends in zip(steps, cycle(BREAKS.values())):
        break_and_go_on(lab, told, step, ends)


@pytest.mark.long
@pytest.mark.parametrize("ends", BREAKS.values(), ids=BREAKS)
def test_broken_at_every_step(lab: BreakingLab, told: Told, ends: Break) -> None:
    for step in range(1, len(told.steps) + 1):
        break_and_go_on(lab, told, step, ends)
