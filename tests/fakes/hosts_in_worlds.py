"""Several hosts in one process, each with a fake engine, one Slurm over them, and what a controller asks them."""

from __future__ import annotations

import json
import time
from collections import ChainMap
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import GpuprovError, Unreachable
from gpuprov.fleet.fleet import Fleet
from gpuprov.fleet.member.serve import read_order, serve_request
from gpuprov.gpu.observe import observe
from gpuprov.link.address import RemoteMachine
from gpuprov.link.ask import OtherVersion
from gpuprov.link.several import HostAnswer
from gpuprov.machine.survey import EngineDoor
from gpuprov.shapes.base import raw, write
from tests.fakes.host import FakeHost
from tests.fakes.places import NOWHERE
from tests.fakes.world import World
from tests.schemas import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import pytest

    from gpuprov.gpu.models import HostGpus
    from gpuprov.link.ask import MemberRequest
    from gpuprov.machine.base import Host
    from gpuprov.shapes.choices import GpuMode
    from tests.conftest import Recording

SINCE = "2026-11-23T18:00:00Z"


WITH_SCHEMA = frozenset(
    "cluster-nodes down hold node-run nodes part ready release share tell up".split()  # noqa: SIM905
)


class HostsInWorlds:
    """The way to hosts that are worlds.

    Attributes:
        worlds: By host.
        away: Hosts that do not answer, and `since` when.
        outdated: Hosts with another version of gpuprov.
        spoiled: What hosts answer in place of the document, by host and verb.
        ahead_s: By how much the clock of the controller is ahead of theirs.
        asked: Each request, as host and verb, but for `record`: which host is asked for that does not matter.
        attached: Each command that was run on a host; it ended with `attach_status`.
        controller: A machine without an engine.
    """

    def __init__(self, folder: Path, recording: Recording, names: Sequence[str]) -> None:
        self.worlds: dict[str, World] = {}
        self.away: set[str] = set()
        self.since = SINCE
        self.outdated: set[str] = set()
        self.spoiled: dict[tuple[str, str], Callable[[dict[str, Any]], Any]] = {}
        self.ahead_s = 0.0
        self.asked: list[tuple[str, str]] = []
        self.attached: list[tuple[str, tuple[str, ...]]] = []
        self.attach_status = 5
        self.controller = FakeHost(folder=folder, observe=_no_gpus)
        self._reporter = recording
        for number, name in enumerate(names):
            (folder / name).mkdir()
            world = World(folder / name, recording)
            world.gpus = observe(root=NOWHERE, mode="simulated", simulated_count=4, seed=f"{number + 1:08x}")
            door = EngineDoor(name="lxd", open=partial(_connect, world), installed=lambda: True)
            world.host.engines = (door,)
            self.worlds[name] = world
        nodes = ChainMap(*(world.engine.nodes for world in self.worlds.values()))
        read: dict[str, bytes] = {}
        down: set[str] = set()
        for world in self.worlds.values():
            world.slurm._engine = SimpleNamespace(nodes=nodes)  # type: ignore[assignment]  # one for all
            world.slurm.read, world.slurm.down = read, down
            world.workers.engine = SimpleNamespace(nodes=nodes)  # type: ignore[assignment]

    @property
    def machines(self) -> dict[str, RemoteMachine]:
        """All of them, as `host add` would have remembered them."""
        return {name: RemoteMachine(name=name, address=f"{name}.example") for name in self.worlds}

    def fleet(self, here: Host | None = None) -> Fleet:
        """The controller, or another machine, and all of them."""
        return Fleet(here=here or self.controller, others=self.machines, connect=lambda: self, reporter=self._reporter)

    def ask(
        self,
        requests: Mapping[RemoteMachine, MemberRequest],
        further: Callable[[HostAnswer], Mapping[RemoteMachine, MemberRequest]] = lambda _answer: {},
    ) -> list[HostAnswer]:
        answers = [self._serve(machine, request) for machine, request in requests.items()]
        more = {machine: request for answer in answers for machine, request in further(answer).items()}
        return answers + [self._serve(machine, request) for machine, request in more.items() if machine not in requests]

    def work(self, requests: Mapping[RemoteMachine, MemberRequest]) -> list[HostAnswer]:
        return self.ask(requests)

    def close(self) -> None:
        """Nothing is kept."""

    def attach(self, machine: RemoteMachine, command: Sequence[str], *, terminal: bool) -> int:
        assert not terminal
        self.attached.append((machine.name, tuple(command)))
        return self.attach_status

    def argv(self, machine: RemoteMachine, command: Sequence[str]) -> list[str]:
        return ["ssh", machine.destination, *command]

    def read_tree(self, machine: RemoteMachine, place: Sequence[str], take: Callable[[bytes], object]) -> str:
        self.asked.append((machine.name, "read_tree"))
        engine, node, path = place
        return self.worlds[machine.name].host.open(engine).read_tree(node, path, take)

    def write_tree(self, machine: RemoteMachine, place: Sequence[str], tar: Iterable[bytes]) -> None:
        self.asked.append((machine.name, "write_tree"))
        engine, node, path = place
        self.worlds[machine.name].host.open(engine).write_tree(node, path, tar)

    def is_away(self, machine: RemoteMachine) -> bool:
        return machine.name in self.away

    def _serve(self, machine: RemoteMachine, request: MemberRequest) -> HostAnswer:
        name = machine.name
        if request.verb != "record":
            self.asked.append((name, request.verb))
        if name in self.outdated:
            fix = f"bring it up to date: gpuprov host add {name}"
            other = OtherVersion(f"{name} has another version of gpuprov", evidence="it has 0.0", fix=fix)
            other.there = "0.0"
            return HostAnswer(machine=machine, error=other)
        if name in self.away:
            error = Unreachable(f"{name} is unreachable", evidence="No route to host", fix=f"ssh {name}")
            return HostAnswer(machine=machine, error=error, away_since=self.since)
        asked_s = time.time()
        try:
            order = read_order(request.verb, raw(request.order))
            told = write(serve_request(order, self.worlds[name].host.called(name), reporter=self._reporter))
        except GpuprovError as error:
            return HostAnswer(machine=machine, error=error)
        if request.verb in (
            "part",
            "ready",
            "share",
            "cluster-nodes",
            "node-run",
            "up",
            "down",
            "hold",
            "release",
            "nodes",
            "tell",
        ):
            validate(told)
        if (name, request.verb) in self.spoiled:
            told = self.spoiled[name, request.verb](told)
        asked_s, heard_s = (moment_s + self.ahead_s for moment_s in (asked_s, time.time()))
        return HostAnswer(
            machine=machine,
            document=json.loads(json.dumps(told)),
            asked_s=asked_s,
            heard_s=heard_s,
        )


def keep_keys_below(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the controller's user data in this folder, with a key of ssh for cluster lab."""
    keys = data / "gpuprov/lab"
    keys.mkdir(parents=True)
    (keys / "id_ed25519").write_text("private\n")
    (keys / "id_ed25519.pub").write_text("ssh-ed25519 AAAA gpuprov-lab\n")
    monkeypatch.setenv("XDG_DATA_HOME", str(data))


def _no_gpus(_mode: GpuMode) -> HostGpus:
    raise AssertionError("the controller's own GPUs are of no interest")


def _connect(world: World) -> Any:
    driver: Any = world.driver
    driver.name = "lxd"
    return driver
