"""`run` on fake engines: leases, labels, refusals, endings, and what a killed one leaves."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster import leases
from gpuprov.core.errors import EngineError, GpuprovError, TimedOut, UsageError
from gpuprov.core.group_files import Gates
from gpuprov.core.lock import host_lock
from gpuprov.core.queue import Queue
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_GPUS, LABEL_PROCESS, LABEL_ROLE, LABEL_SHARING
from gpuprov.drivers.capabilities import NotCapable
from gpuprov.gpu.allocate import GpusTaken
from gpuprov.gpu.observe import observe
from gpuprov.gpu.waiting_for_gpus import Patience
from gpuprov.lifecycle import run_job as job_workflow
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.lifecycle.run_job import run_job
from gpuprov.shapes.run_order import RunOrder
from gpuprov.stories.inventory import read_inventory
from tests.fakes.doors import door_of
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import Command, FakeNode
from tests.fakes.faults import Killed
from tests.fakes.host import FakeHost, fleet_of
from tests.fakes.orders import nested
from tests.fakes.slurm import said

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import ExecResult, NodeState, Stream
    from tests.fakes.world import World

GONE = "here boot pid:[1] 1 1"


class Shop:
    """A host of two GPUs on which jobs run until they are let go."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.gpus = observe(root=folder, mode="simulated", simulated_count=2)
        self.started = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.let_go.set()
        self.seen: list[Command] = []
        self.streams: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}
        world.engine.answer = self.answer

    def answer(self, command: Command) -> ExecResult:
        self.seen.append(command)
        self.started.release()
        assert self.let_go.wait(20)
        return said("out", exit_code=7 if "fail" in command.argv else 0)

    def write(self, stream: Stream, content: bytes) -> None:
        self.streams[stream] += content

    def run(self, *argv: str, wait_s: float | None = None, **order: Any) -> int:
        given = {"gpus": "1", "image": "gpuprov-image-plain", **order}
        here = FakeHost(folder=self.folder, observe=lambda _mode: self.gpus)
        return run_job(
            FakeDriver(self.world.engine),
            RunOrder(argv=argv or ("true",), **nested(**given)),
            here,
            patience=Patience(wait_s=wait_s),
            write=self.write,
            reporter=self.world.reporter,
        )

    def begin(self, **order: Any) -> threading.Thread:
        """A job that runs until it is let go."""
        self.let_go.clear()
        thread = threading.Thread(target=self.run, kwargs=order)
        thread.start()
        assert self.started.acquire(timeout=20)
        return thread

    def end(self, *threads: threading.Thread) -> None:
        self.let_go.set()
        for thread in threads:
            thread.join(20)

    def held(self) -> list[int]:
        labels = [node.labels.get(LABEL_GPUS, "").split(",") for node in self.world.engine.nodes.values()]
        return sorted(unit.index for unit in self.gpus.units for uuids in labels if unit.uuid in uuids)


@pytest.fixture
def shop(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(leases, "is_gone", lambda owner: owner == GONE)
    return Shop(world, tmp_path)


def test_a_job_has_a_gpu_of_its_own_and_nothing_is_left(shop: Shop) -> None:
    assert shop.run("train", "fail", environment=("QUERY=a=b", "EMPTY=")) == 7
    node = shop.seen[0].node
    assert node.labels[LABEL_ROLE] == "job"
    assert node.labels[LABEL_CLUSTER] == "(jobs)"
    assert node.labels[LABEL_SHARING] == "exclusive"
    assert node.labels[LABEL_GPUS] == shop.gpus.units[0].uuid
    assert node.environment == {"NUMBA_ENABLE_CUDASIM": "1", "QUERY": "a=b", "EMPTY": ""}
    assert {device.path for device in node.devices} >= {"/dev/nvidia0"}
    assert "/dev/nvidia1" not in {device.path for device in node.devices}
    assert shop.seen[0].argv == ("train", "fail")
    assert shop.streams == {"stdout": b"out\n", "stderr": b""}
    assert shop.world.engine.nodes == {}
    assert shop.world.engine.networks == {}


def test_who_is_refused_does_not_wait_for_the_image(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object, **__: object) -> None:
        pytest.fail("an image is built for a job that is refused")

    monkeypatch.setattr(job_workflow, "build_image", build)
    job = shop.begin(gpus="2")
    with pytest.raises(GpusTaken):
        shop.run(image=None)
    shop.end(job)


def test_the_lowest_free_one_and_a_refusal_that_names_the_holders(shop: Shop) -> None:
    first = shop.begin()
    second = shop.begin()
    assert shop.held() == [0, 1]
    before = shop.world.engine.dump()
    with pytest.raises(GpusTaken) as caught:
        shop.run()
    assert caught.value.evidence.count("(exclusive, fake)") == 2
    assert all(name in caught.value.evidence for name in before["nodes"])
    assert caught.value.fix.startswith(
        "wait for a GPU (create-node, run): --wait 10m, or --sharing shared, or ask whose"
    )
    assert "gpuprov show job-" in caught.value.fix
    assert shop.world.engine.dump() == before
    with host_lock(shop.world.reporter, timeout_s=0.1):
        """Jobs that run hold no lock."""
    shop.end(first, second)
    assert shop.held() == []
    assert shop.run() == 0


@pytest.mark.parametrize(
    ("order", "count", "sharing"),
    [
        ({"gpus": None}, 0, "exclusive"),
        ({"gpus": None, "model": "h100"}, 1, "exclusive"),
        ({"gpus": None, "memory_gib": 20}, 1, "exclusive"),
        ({"gpus": "all"}, 2, "exclusive"),
        ({"gpus": "1", "sharing": "shared"}, 1, "shared"),
        ({"gpus": None, "environment": ("NVIDIA_VISIBLE_DEVICES=all",)}, 2, "shared"),
        ({"gpus": None, "environment": ("HOUDINI_GPU_REQUEST=2",)}, 2, "exclusive"),
        ({"gpus": None, "environment": ("HOUDINI_GPU_ENABLED=true", "NVIDIA_VISIBLE_DEVICES=1")}, 1, "shared"),
    ],
)
def test_what_is_asked_for(shop: Shop, order: dict[str, Any], count: int, sharing: str) -> None:
    shop.run(**order)
    labels = shop.seen[0].node.labels
    assert len([uuid for uuid in labels[LABEL_GPUS].split(",") if uuid]) == count
    assert labels[LABEL_SHARING] == sharing


@pytest.mark.parametrize(
    "order",
    [
        {"gpus": "-1"},
        {"gpus": "0x"},
        {"gpus": "0,0"},
        {"gpus": "7"},
        {"gpus": ""},
        {"gpus": None, "memory_gib": 1 << 20},
        {"gpus": None, "model": "none"},
        {"gpus": "1", "environment": ("NVIDIA_VISIBLE_DEVICES=all",)},
        {"gpus": None, "sharing": "exclusive", "environment": ("NVIDIA_VISIBLE_DEVICES=all",)},
        {"gpus": "2", "environment": ("HOUDINI_GPU_REQUESTED=1",)},
        {"environment": ("no variable",)},
    ],
)
def test_nonsense_and_contradictions_change_nothing(shop: Shop, order: dict[str, Any]) -> None:
    before = shop.world.engine.dump()
    with pytest.raises(UsageError) as caught:
        shop.run(**order)
    assert caught.value.evidence
    assert caught.value.fix
    assert not shop.seen
    assert shop.world.engine.dump() == before


def test_an_image_that_is_not_there(shop: Shop) -> None:
    with pytest.raises(EngineError, match="has no image 'nothing'"):
        shop.run(image="nothing")


def test_an_engine_without_jobs(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeDriver, "capabilities", frozenset())
    with pytest.raises(NotCapable):
        shop.run()


def test_an_interrupted_job_goes(shop: Shop) -> None:
    shop.world.engine.faults.raise_at(KeyboardInterrupt(), "run_job:started")
    with pytest.raises(KeyboardInterrupt):
        shop.run()
    assert shop.world.engine.nodes == {}
    with host_lock(shop.world.reporter, timeout_s=0.1):
        """The lock is free again."""


@pytest.mark.parametrize("step", ["run_job", "run_job:started"])
def test_what_a_killed_run_leaves_holds_its_gpu_and_the_next_run_removes_it(shop: Shop, step: str) -> None:
    shop.world.engine.faults.raise_at(Killed(), step)
    with pytest.raises(Killed):
        shop.run(gpus="2")
    shop.world.engine.faults.clear()
    assert shop.held() == [0, 1]
    (left,) = shop.world.engine.nodes.values()
    with pytest.raises(GpusTaken):
        shop.run()  # its owner, this very process, lives
    assert left.labels[LABEL_PROCESS]
    left.labels[LABEL_PROCESS] = GONE
    assert shop.run(gpus="2", wait_s=20) == 0
    assert f"warn removing {left.name}: the gpuprov run that it belonged to was killed" in shop.world.reporter.lines
    assert shop.world.engine.nodes == {}


def test_a_job_whose_run_was_killed_before_it_started_holds_nothing(shop: Shop) -> None:
    uuids = shop.gpus.units[0].uuid
    labels = {LABEL_CLUSTER: "(jobs)", LABEL_ROLE: "job", LABEL_GPUS: uuids, LABEL_PROCESS: GONE}
    made, runs = (FakeNode(name=name, labels=labels) for name in ("job-made", "job-runs"))
    made.status, runs.status = "stopped", "running"
    shop.world.engine.nodes |= {made.name: made, runs.name: runs}
    found = leases.read_leases(FakeDriver(shop.world.engine).list_nodes(), engine="fake")
    assert [lease.node for lease in found] == ["job-runs"]


def test_who_waits_outlives_an_engine_that_is_started_anew(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    first = shop.begin(gpus="2")
    look = FakeDriver.list_nodes
    silent = [EngineError("fake does not respond", evidence="connection refused", fix="gpuprov doctor")] * 2

    def list_nodes(driver: FakeDriver) -> list[NodeState]:
        if Queue(Gates(folder=shop.folder)).waiting() and silent:
            raise silent.pop()
        shop.let_go.set()
        return look(driver)

    monkeypatch.setattr(FakeDriver, "list_nodes", list_nodes)
    assert shop.run(gpus="1", wait_s=20) == 0
    assert silent == []
    assert "note waiting: fake does not respond: connection refused" in shop.world.reporter.lines
    shop.end(first)


def test_a_left_job_can_be_removed_by_hand_and_others_are_left_in_peace(shop: Shop) -> None:
    running = shop.begin()
    shop.world.engine.nodes["job-left"] = FakeNode(
        name="job-left", labels={LABEL_CLUSTER: "(jobs)", LABEL_ROLE: "job", LABEL_GPUS: shop.gpus.units[1].uuid}
    )
    calls = len(shop.seen)
    assert remove_nodes(shop.world.driver, ["job-left"], shop.world.host, reporter=shop.world.reporter).changed == (
        "removed job-left",
    )
    assert len(shop.seen) == calls
    assert shop.held() == [0]
    shop.world.host.engines = (door_of(FakeDriver(shop.world.engine)),)
    assert read_inventory(fleet_of(shop.world.host)).hosts == {}
    shop.end(running)


def test_a_job_that_waits_is_served_when_another_ends(shop: Shop) -> None:
    first = shop.begin(gpus="2")
    waiter = threading.Thread(target=shop.run, kwargs={"gpus": "1", "wait_s": 20})
    waiter.start()
    deadline_s = time.monotonic() + 10
    while not Queue(Gates(folder=shop.folder)).waiting():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    with pytest.raises(TimedOut):
        shop.run(wait_s=0.1)
    shop.end(first, waiter)
    assert len(shop.seen) == 2
    assert Queue(Gates(folder=shop.folder)).waiting() == ()


@pytest.mark.slow
def test_fifty_jobs_at_once_for_the_last_gpu(shop: Shop) -> None:
    holder = shop.begin()
    start = threading.Barrier(50)
    outcomes: list[str] = []

    def one(_number: int) -> None:
        start.wait()
        try:
            shop.run()
            outcomes.append("ran")
        except GpusTaken:
            outcomes.append("refused")
            if outcomes.count("refused") == 49:
                shop.let_go.set()

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(one, range(50)))
    shop.end(holder)
    assert sorted(outcomes) == ["ran", *["refused"] * 49]
    assert shop.world.engine.nodes == {}


def test_every_refusal_has_its_exit_code(shop: Shop) -> None:
    holder = shop.begin(gpus="2")
    with pytest.raises(GpuprovError) as caught:
        shop.run()
    assert caught.value.exit_code == 2
    shop.end(holder)


def test_a_request_among_a_hundred_containers_is_decided_in_little_time(shop: Shop) -> None:
    """What gpuprov itself computes; benchmarks/gpu_request.py times the engines as well."""
    for number in range(100):
        labels = {LABEL_CLUSTER: "lab", LABEL_GPUS: shop.gpus.units[0].uuid, LABEL_SHARING: "shared"}
        shop.world.engine.nodes[f"n{number}"] = FakeNode(name=f"n{number}", labels=labels)
    shop.run()
    began_s = time.process_time()
    shop.run()
    assert time.process_time() - began_s < 0.05
    assert shop.seen[1].node.labels[LABEL_GPUS] == shop.gpus.units[1].uuid
