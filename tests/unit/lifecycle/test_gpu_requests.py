"""Requests for GPUs as users make them, on fake engines: two engines, many processes, a queue."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, TimedOut
from gpuprov.core.group_files import Gates
from gpuprov.core.queue import Queue
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_GPUS, LABEL_SHARING
from gpuprov.gpu.allocate import GpusTaken
from gpuprov.gpu.observe import observe
from gpuprov.gpu.waiting_for_gpus import Patience
from gpuprov.lifecycle.create_node import create_node
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.machine import survey
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import NetworkSpec, NodesSpec
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine, FakeNode
from tests.fakes.faults import Killed
from tests.fakes.host import FakeHost
from tests.fakes.orders import node_order

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.world import World


class Other:
    """A second engine of the host."""

    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.error: GpuprovError | None = None
        self.installed = True
        self.hang = threading.Event()
        self.hang.set()

    def open(self) -> FakeDriver:
        self.hang.wait(30)
        if self.error:
            raise self.error
        driver = FakeDriver(self.engine)
        driver.name = "other"
        return driver

    def hold(self, name: str, uuid: str, sharing: str = "exclusive") -> None:
        labels = {LABEL_CLUSTER: "theirs", LABEL_GPUS: uuid, LABEL_SHARING: sharing}
        self.engine.nodes[name] = FakeNode(name=name, labels=labels)  # made and never started, not even finished


@pytest.fixture
def other() -> Other:
    return Other()


@pytest.fixture
def host(world: World, other: Other, tmp_path: Path) -> Host:
    return Host(world, other, tmp_path)


class Host:
    """Two GPUs and two engines."""

    def __init__(self, world: World, other: Other, folder: Path) -> None:
        self.world, self.other, self.folder = world, other, folder
        self.gpus = observe(root=folder, mode="simulated", simulated_count=2)

    def ask(self, name: str, *, wait_s: float | None = None, **order: object) -> list[int]:
        """One process's request for one GPU of its own; the indexes that it got."""
        door = survey.EngineDoor(name="other", open=self.other.open, installed=lambda: self.other.installed)
        here = FakeHost(folder=self.folder, observe=lambda _mode: self.gpus, engines=(door,))
        wanted = {"gpus": "1", "sharing": "exclusive", "role": "plain", **order}
        made = node_order(name, **wanted)  # type: ignore[arg-type]
        create_node(self.world.driver, made, here, patience=Patience(wait_s=wait_s), reporter=self.world.reporter)
        return self.held(name)

    def held(self, name: str) -> list[int]:
        label = self.world.engine.nodes[name].labels[LABEL_GPUS]
        return [unit.index for unit in self.gpus.units if unit.uuid in label.split(",")]

    def release(self, *names: str) -> None:
        remove_nodes(self.world.driver, names, self.world.host, reporter=self.world.reporter)


def test_the_reference_sequence(host: Host) -> None:
    assert host.ask("one") == [0]
    assert host.ask("two") == [1]
    with pytest.raises(GpusTaken) as caught:
        host.ask("three")
    assert "one (cluster lab, exclusive, fake)" in caught.value.evidence
    assert "two (cluster lab, exclusive, fake)" in caught.value.evidence
    host.release("two")
    assert host.ask("three") == [1]
    host.release("one", "three")
    assert host.world.engine.nodes == {}
    assert host.ask("again") == [0]


def test_two_engines_never_give_the_same_gpu(host: Host) -> None:
    host.other.hold("one", host.gpus.units[0].uuid)
    assert host.ask("one") == [1]  # a namesake there is another node
    with pytest.raises(GpusTaken) as caught:
        host.ask("two")
    assert "one (cluster theirs, exclusive, other, stopped)" in caught.value.evidence
    assert "gpuprov show one --engine other" in caught.value.fix
    host.other.engine.nodes.clear()  # by hand
    assert host.ask("two") == [0]


def test_an_engine_that_is_not_installed_is_silently_absent(host: Host) -> None:
    host.other.error, host.other.installed = HostNotReady("none", evidence="e", fix="f"), False
    assert host.ask("one") == [0]


@pytest.mark.parametrize(
    "error", [HostNotReady("down", evidence="e", fix="f"), EngineError("x", evidence="e", fix="f")]
)
def test_an_installed_engine_that_does_not_answer_stops_every_grant(host: Host, error: GpuprovError) -> None:
    host.other.error = error
    before = host.world.engine.dump()
    for sharing in ("exclusive", "shared"):
        with pytest.raises(HostNotReady, match="other"):
            host.ask("one", sharing=sharing)
    assert host.world.engine.dump() == before
    assert host.ask("one", gpus="none") == []
    host.other.error = None
    assert host.ask("two") == [0]


def test_an_engine_that_hangs_is_one_that_does_not_answer(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "ANSWER_S", 0.1)
    host.other.hang.clear()
    with pytest.raises(HostNotReady, match="other"):
        host.ask("one")
    host.other.hang.set()


def test_a_killed_request_neither_leaks_nor_double_books(host: Host) -> None:
    host.world.engine.faults.raise_at(Killed(), "create_node:made", subject="one")
    with pytest.raises(Killed):
        host.ask("one")
    assert host.held("one") == [0]  # it exists, so it holds
    assert host.ask("two") == [1]
    host.world.engine.faults.clear()
    assert host.ask("one") == [0]  # the same command again finishes it
    del host.world.engine.nodes["one"]  # somebody removes it by hand
    assert host.ask("three") == [0]


@pytest.mark.slow
def test_fifty_at_once_for_two_gpus(host: Host) -> None:
    host.ask("first", gpus="none")  # the networks
    start = threading.Barrier(50)

    def one(number: int) -> list[int] | None:
        start.wait()
        try:
            return host.ask(f"n{number:02}")
        except GpusTaken:
            return None

    with ThreadPoolExecutor(50) as pool:
        got = [answer for answer in pool.map(one, range(50)) if answer is not None]
    assert sorted(got) == [[0], [1]]
    held = [node.labels[LABEL_GPUS] for node in host.world.engine.nodes.values() if node.labels[LABEL_GPUS]]
    assert len(held) == len(set(held)) == 2


def until(condition: object) -> None:
    deadline_s = time.monotonic() + 10
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_waiting_is_served_in_order(host: Host) -> None:
    host.ask("one", gpus="2")
    served: list[str] = []

    def wait(name: str) -> None:
        host.ask(name, wait_s=20)
        served.append(name)

    threads = []
    for number, name in enumerate(("first", "second"), 1):
        threads.append(threading.Thread(target=wait, args=(name,)))
        threads[-1].start()
        until(lambda number=number: len(Queue(Gates(folder=host.folder)).waiting()) == number)
    with pytest.raises(GpusTaken, match="late"):
        host.ask("late")
    host.ask("reader", gpus="none")  # neither readers nor other verbs wait for those who wait
    host.release("one")
    for thread in threads:
        thread.join(20)
    assert sorted(served) == ["first", "second"]  # one after the other: each took the first GPU that was free
    assert host.held("first") == [0]
    assert host.held("second") == [1]
    assert Queue(Gates(folder=host.folder)).waiting() == ()
    notes = [line for line in host.world.reporter.lines if line.startswith("note waiting")]
    assert "one (cluster lab, exclusive, fake)" in notes[0]


def test_waiting_ends_with_time_and_says_who_holds_what(host: Host) -> None:
    host.ask("one", gpus="2")
    before = host.world.engine.dump()
    with pytest.raises(TimedOut) as caught:
        host.ask("two", wait_s=0.2)
    assert caught.value.exit_code == 6
    assert "one (cluster lab, exclusive, fake)" in caught.value.evidence
    assert "gpuprov show one --engine fake" in caught.value.fix
    assert host.world.engine.dump() == before
    assert Queue(Gates(folder=host.folder)).waiting() == ()


@pytest.mark.slow
def test_who_waits_long_for_gpus_is_told_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def waits() -> int:
        host.world.reporter.lines.clear()
        with pytest.raises(TimedOut):
            host.ask("two", wait_s=0.2)
        return sum("one (cluster lab, excl" in line for line in host.world.reporter.lines if "note waiting" in line)

    host.ask("one", gpus="2")
    assert waits() == 1
    monkeypatch.setattr("gpuprov.gpu.waiting_for_gpus.AGAIN_S", 0.01)
    assert waits() > 1


def test_what_cannot_ever_be_is_not_waited_for(host: Host) -> None:
    with pytest.raises(GpuprovError, match="fewer than 3 GPUs"):
        host.ask("one", gpus="3", wait_s=20)


def test_a_node_made_exclusive_stays_so_when_its_cluster_comes_up(world: World) -> None:
    world.begin_with(1)
    world.create("own", role="plain", gpus="1", sharing="exclusive")
    world.create("none", role="plain", gpus="none")
    labels = {name: (world.engine.nodes[name].labels[LABEL_GPUS], world.engine.nodes[name].labels[LABEL_SHARING])
              for name in ("own", "none")}  # fmt: skip
    assert world.up(2).changed
    for name, (gpus, sharing) in labels.items():
        node = world.engine.nodes[name]
        assert (node.labels[LABEL_GPUS], node.labels[LABEL_SHARING]) == (gpus, sharing)
    assert labels["own"][1] == "exclusive"
    assert world.up(2).unchanged


def test_variables_reach_the_node_and_ask_for_its_gpus(world: World) -> None:
    given = ("HOUDINI_GPU_REQUESTED=2", "QUERY=a=b&c=d", "EMPTY=")
    world.create("c000", environment=given)
    node = world.engine.nodes["c000"]
    assert node.labels[LABEL_SHARING] == "exclusive"
    assert len(node.labels[LABEL_GPUS].split(",")) == 2
    assert node.environment == {"HOUDINI_GPU_REQUESTED": "2", "QUERY": "a=b&c=d", "EMPTY": ""}
    world.create("c001", environment=("NVIDIA_VISIBLE_DEVICES=3",))
    assert world.engine.nodes["c001"].environment == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert world.engine.nodes["c001"].labels[LABEL_GPUS] == world.gpus.units[3].uuid
    assert world.engine.nodes["c001"].labels[LABEL_SHARING] == "shared"


@pytest.mark.parametrize("text", ["KEY", "=x", "a b=c", "9=1", "A=1\0"])
def test_what_is_no_variable_is_refused(world: World, text: str) -> None:
    before = world.engine.dump()
    with pytest.raises(GpuprovError) as caught:
        world.create("c000", environment=(text,))
    assert caught.value.exit_code == 2
    assert "nodes.environment[0]" in caught.value.evidence
    assert world.engine.dump() == before


def test_two_clusters_on_one_host_never_share_an_exclusive_gpu(world: World) -> None:
    own = changed(world.spec(2, sharing="exclusive"), name="other", nodes=NodesSpec(count=2, prefix="o"))
    network = NetworkSpec(bridge="ob0", subnet="10.0.13.0/24", private_bridge="ob1", private_subnet="10.0.15.0/24")
    world.up(spec=world.spec(2, sharing="exclusive"))
    world.up(spec=changed(own, network=network))
    held = [node.labels[LABEL_GPUS] for node in world.engine.nodes.values()]
    assert len(held) == len(set(held)) == 4
    before = world.engine.dump()
    with pytest.raises(GpusTaken) as caught:
        world.up(spec=changed(own, network=network, nodes=NodesSpec(count=3, prefix="o")))
    assert "c000 (cluster lab, exclusive" in caught.value.evidence
    assert world.engine.dump() == before
