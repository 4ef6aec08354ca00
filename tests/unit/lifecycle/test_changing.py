"""Nodes are read while nobody holds the host's lock, and again if they changed before it was taken."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, TimedOut, UsageError
from gpuprov.drivers.base import File
from gpuprov.lifecycle.changing import changing, read_cluster
from gpuprov.lifecycle.create_node import CloneOrder, clone_node
from gpuprov.lifecycle.leaving import JobsPolicy
from gpuprov.lifecycle.out_of_service import NodesLeave, clusters_left
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.lifecycle.start_stop import restore, snapshot, start_nodes, stop_nodes
from gpuprov.roles.departure import Departure
from gpuprov.roles.slurm import daemons
from gpuprov.roles.slurm.facts import slurm_path
from tests.fakes.slurm import FakeJob, said
from tests.fakes.world import make_world

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from gpuprov.cluster.state import EngineState
    from gpuprov.drivers.base import Driver, ExecResult
    from tests.conftest import Recording
    from tests.fakes.engine import Command
    from tests.fakes.host import FakeHost
    from tests.fakes.world import World

KEY = slurm_path("munge_key")
# What is asked of Slurm, and the most seconds that this may take
SLURM = {"sdiag": 30.0, "tail": 5.0, **dict.fromkeys(("slurmstepd", "sinfo", "squeue", "scontrol", "scancel"), 15.0)}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> World:
    made = make_world(tmp_path, monkeypatch, recording)
    made.up(3)
    return made


def reading(world: World, reads: Callable[[EngineState], Collection[str]]) -> Any:
    nothing = NodesLeave(nodes=(), leaves=())
    return changing(world.driver, world.host, lambda _: nothing, reads=reads, reporter=world.reporter)


class Watch:
    """Notes what is read from which node, and what Slurm is asked, while the lock is held.

    Attributes:
        seen: What is read, and from which node.
        asked: What Slurm is asked, and how long it may take.
    """

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held = threading.Event()
        self.seen: list[tuple[str, str]] = []
        self.asked: list[tuple[str, float | None]] = []
        lock = world.host.lock
        reach = world.engine.faults.reach

        @contextmanager
        def watched(reporter: Recording) -> Iterator[None]:
            with lock(reporter):
                self.held.set()
                try:
                    yield
                finally:
                    self.held.clear()

        def noted(step: str, subject: str) -> None:
            if self.held.is_set() and step == "pull":
                self.seen.append((step, subject))
            reach(step, subject)

        monkeypatch.setattr(world.host, "lock", watched, raising=False)
        monkeypatch.setattr(world.engine.faults, "reach", noted)
        answer = world.engine.answer

        def asked(command: Command) -> ExecResult:
            if self.held.is_set() and command.argv[0] == "sh" and "sha256sum" in command.argv[2]:
                self.seen.append(("look", command.node.name))
            first, script = command.argv[0], " ".join(command.argv[2:])
            asked = [word for word in SLURM if word == first or (first == "sh" and word in script)]
            if self.held.is_set() and asked:
                self.asked.append((asked[0], command.timeout_s))
            return answer(command)

        monkeypatch.setattr(world.engine, "answer", asked)


def test_no_node_is_read_under_the_lock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(world, monkeypatch)
    world.up(3)
    world.up(4)
    world.create("c009")
    remove_nodes(world.driver, ["c009"], world.host, reporter=world.reporter)
    stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    clone_node(world.driver, CloneOrder(source="c001", name="c009"), world.host, reporter=world.reporter)
    world.down()
    assert watch.seen == []


def test_slurm_is_not_given_long_while_the_lock_is_held(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(world, monkeypatch)
    world.up(4)
    world.create("c009")
    snapshot(world.driver, "c002", "s", world.host, reporter=world.reporter)
    restore(world.driver, "c002", "s", world.host, reporter=world.reporter)
    remove_nodes(world.driver, ["c009"], world.host, reporter=world.reporter)
    stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    clone_node(world.driver, CloneOrder(source="c001", name="c009"), world.host, reporter=world.reporter)
    start_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    world.slurm.queue = [FakeJob(id="17", nodes="c002", client="c003")]
    stop_nodes(world.driver, ["c003"], world.host, reporter=world.reporter, policy=JobsPolicy(force=True))
    stop_nodes(world.driver, ["c000"], world.host, reporter=world.reporter)
    stop_nodes(world.driver, ["c002"], world.host, reporter=world.reporter)  # its own processes tell
    world.down()
    monkeypatch.setattr(daemons, "_READY_BUDGET_S", 0.05)
    world.slurm.silent = {"c001"}
    with pytest.raises(TimedOut):
        world.up(2)  # the logs tell
    assert {word for word, _ in watch.asked} == set(SLURM)
    assert [(word, limit) for word, limit in watch.asked if limit is None or limit > SLURM[word]] == []


def test_a_controller_that_hangs_is_asked_once(world: World) -> None:
    asked: list[str] = []

    def hang(command: Command) -> ExecResult:
        if "sinfo" in (command.argv[0], *command.argv[-1].split()):
            asked.append(command.node.name)
            raise TimedOut("it did not finish", evidence="no output", fix="gpuprov shell c000")
        return world.slurm(command)

    world.engine.answer = hang
    with pytest.raises(UsageError, match="cannot tell whether jobs run on c001"):
        remove_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    assert asked == ["c000"]


def test_the_logs_of_nodes_are_read_side_by_side(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "_READY_BUDGET_S", 0.05)
    together = threading.Barrier(3)

    def tell(command: Command) -> ExecResult:
        if command.argv[0] == "tail":
            together.wait(timeout=20.0)
            return said(f"[now] error: of {command.node.name}")
        return world.slurm(command)

    world.engine.answer = tell
    world.slurm.silent = {"c001", "c002"}
    with pytest.raises(TimedOut) as caught:
        world.up(3)
    for name in ("c000", "c001", "c002"):
        assert f"of {name}" in caught.value.evidence


def test_what_was_started_or_restored_under_the_lock_is_all_that_is_read_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    watch = Watch(world, monkeypatch)
    start_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    assert watch.seen == [("look", "c001")]
    snapshot(world.driver, "c002", "s", world.host, reporter=world.reporter)
    restore(world.driver, "c002", "s", world.host, reporter=world.reporter)
    assert watch.seen[1:] == [("look", "c002")]


def test_nodes_that_others_changed_before_the_lock_was_taken_are_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, rounds = world.host.lock, list[int]()

    @contextmanager
    def meanwhile(reporter: Recording) -> Iterator[None]:
        if not rounds:
            node = world.engine.nodes["c001"]
            node.status = "stopped"
        rounds.append(1)
        with lock(reporter):
            yield

    monkeypatch.setattr(world.host, "lock", meanwhile, raising=False)
    with reading(world, lambda _: ["lab"]) as (_, readings):
        assert sorted(readings["lab"].files) == ["c000", "c002"]
    assert len(rounds) == 2


def test_a_cluster_that_another_run_makes_before_the_lock_is_taken_is_read(world: World) -> None:
    named = iter([[], ["lab"], ["lab"], ["lab"]])
    with reading(world, lambda _: next(named)) as (_, readings):
        assert sorted(readings["lab"].files) == ["c000", "c001", "c002"]


def test_nodes_that_never_stay_are_read_under_the_lock_in_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, rounds = world.engine.nodes["c001"], list[int]()

    @contextmanager
    def meanwhile(_reporter: Recording) -> Iterator[None]:
        node.status = "stopped" if node.status == "running" else "running"
        rounds.append(1)
        yield

    monkeypatch.setattr(world.host, "lock", meanwhile, raising=False)
    with reading(world, lambda _: ["lab"]) as (_, readings):
        assert ("c001" in readings["lab"].files) == (node.status == "running")
    assert 1 < len(rounds) < 9


class Missing:
    """An image that is missing until it was built; who leaves runs a job, or none does."""

    def __init__(self, world: World, *, leaves: bool) -> None:
        self.world, self.leave, self.told = world, leaves, list[str]()

    def look(self, engine: EngineState) -> Any:
        self.told.append("look")
        nodes = [node for node in engine.nodes if node.name == "c001" and self.leave]
        found = clusters_left(engine, nodes, Departure(nodes=("c001",)))
        return SimpleNamespace(leaves=found.leaves, missing=None if "plain" in engine.built else self)

    def build(self, _driver: Driver, host: FakeHost, reporter: Recording) -> dict[str, Any]:
        with host.lock(reporter):  # nobody holds it
            self.told.append("build")
        self.world.engine.nodes["c002"].status = "stopped"
        return {"plain": "an image"}


def test_what_is_missing_is_built_without_the_lock_and_all_is_read_again(world: World) -> None:
    missing = Missing(world, leaves=False)
    found = changing(world.driver, world.host, missing.look, reads=lambda _: ["lab"], reporter=world.reporter)
    with found as (_, readings):
        assert sorted(readings["lab"].files) == ["c000", "c001"]
    assert missing.told == ["look", "build", "look"]


def test_nothing_is_built_for_who_would_be_refused(world: World) -> None:
    world.slurm.queue = [FakeJob(id="17", nodes="c001")]
    missing = Missing(world, leaves=True)
    with (
        pytest.raises(UsageError, match="there are jobs on c001"),
        changing(world.driver, world.host, missing.look, reporter=world.reporter),
    ):
        pass
    assert missing.told == ["look"]


def test_a_node_that_does_not_answer_has_none_of_its_files(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = world.engine.answer

    def silent(command: Command) -> ExecResult:
        if command.node.name == "c001":
            raise TimedOut("c001 is silent", evidence="nothing", fix="look")
        return answer(command)

    monkeypatch.setattr(world.engine, "answer", silent)
    state = observe_cluster(world.driver, "lab")
    reading = read_cluster(world.driver, state)
    assert reading.files["c001"].lines == frozenset()
    assert reading.files["c000"].lines


def test_a_key_that_cannot_be_read_fails_only_who_needs_it(world: World) -> None:
    for node in world.engine.nodes.values():
        node.files[KEY] = File(path=KEY, content=b"k" * 2000)
    reading = read_cluster(world.driver, observe_cluster(world.driver, "lab"))
    with pytest.raises(EngineError, match="munge key"):
        reading.secret("slurm")
    assert reading.secret("plain") == b""
    stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    assert world.down().changed
