"""Nodes of workers that are about to go: no run begins there any more, and nothing keeps them from work for good."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, TimedOut, UsageError
from gpuprov.core.process import describe_owner
from gpuprov.drivers.base import ExecResult
from gpuprov.lifecycle.cluster_down import cluster_down
from gpuprov.lifecycle.cluster_up import preview_changes
from gpuprov.lifecycle.leaving import JobsPolicy
from gpuprov.lifecycle.remove_nodes import remove_nodes
from gpuprov.lifecycle.start_stop import start_nodes, stop_nodes
from gpuprov.roles.registry import ROLES
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuwork.jobs.store import HELD, is_held
from tests.fakes.world import World, make_world

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.lifecycle.cluster_up import UpResult
    from tests.conftest import Recording

pytestmark = pytest.mark.slow

JOB = {
    "id": "7", "name": "train", "state": "running", "tries": 1, "node": "c001", "gpus": [], "simulated": True,
    "exit_status": None, "reason": None, "submitted": "2026-11-22T16:40:12Z", "started": None, "ended": None,
    "log": "/shared/jobs/7/log",
}  # fmt: skip
GONE = f"{os.uname().nodename} 00000000-0000-0000-0000-000000000000 pid:[1] 1 1"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> World:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = make_world(tmp_path, monkeypatch, recording)
    up(made)
    return made


def spec(world: World, count: int) -> ClusterSpec:
    return world.spec(nodes=NodesSpec(count=count, role="worker"), share=True)


def up(world: World, count: int = 3) -> UpResult:
    return world.up(spec=spec(world, count))


def leave_held(world: World, name: str, owner: str) -> None:
    """As a run of gpuprov does that is killed."""
    (world.workers.folder / HELD).mkdir(parents=True, exist_ok=True)
    (world.workers.folder / HELD / name).write_text(f"{owner}\n")


def run_job(world: World, *, looks: int) -> list[list[str]]:
    """Have a job run on c001 until it has been looked for so often; the nodes that were held at each look."""
    held: list[list[str]] = []

    def live() -> dict[str, Any]:
        held.append(world.workers.held)
        jobs = [JOB] if len(held) <= looks else []
        return {"schema": "gpuprov.jobs/v1", "version": 1, "jobs": jobs, "older": 0}

    world.workers._list_live = live  # type: ignore[method-assign]
    return held


def test_a_drain_keeps_work_from_the_node_while_it_waits_and_no_longer(world: World) -> None:
    held = run_job(world, looks=2)
    stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter, policy=JobsPolicy(drain_s=60))
    assert world.engine.nodes["c001"].status == "stopped"
    assert len(held) >= 3
    assert all(names == ["c001"] for names in held), "before the first look"
    assert world.workers.held == [], "it takes work once it is started"


def test_a_node_that_is_refused_or_whose_drain_takes_too_long_takes_work_again(world: World) -> None:
    held = run_job(world, looks=10**6)
    with pytest.raises(UsageError, match="there are jobs on c001"):
        stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    with pytest.raises(TimedOut):
        remove_nodes(world.driver, ["c001"], world.host, reporter=world.reporter, policy=JobsPolicy(drain_s=0.01))
    assert ["c001"] in held
    assert world.workers.held == []
    assert world.engine.nodes["c001"].status == "running"


def test_a_node_that_is_removed_leaves_nothing_that_keeps_the_next_of_its_name_from_work(world: World) -> None:
    remove_nodes(world.driver, ["c002"], world.host, reporter=world.reporter)
    assert world.workers.held == []
    assert up(world, 1).changed == ("remove node c001", "renew /etc/hosts on c000")
    assert world.workers.held == []


def test_workers_that_were_stopped_start_without_a_word_of_a_killed_run(world: World) -> None:
    stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    leave_held(world, "c001", GONE)
    started = start_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    assert started.changed == ("started c001",)
    assert world.workers.held == []


def test_what_a_killed_run_held_is_told_by_the_plan_and_let_go_by_the_next_run(world: World) -> None:
    leave_held(world, "c001", GONE)
    leave_held(world, "c009", GONE)  # it was removed
    line = "resume c001: a killed gpuprov run left it drained"
    assert preview_changes(world.driver, spec(world, 3), world.host, reporter=world.reporter) == (line,)
    assert world.workers.held == ["c001", "c009"], "a plan changes nothing"
    assert up(world).changed == (line,)
    assert world.workers.held == []
    assert up(world).unchanged
    leave_held(world, "c001", GONE)
    assert line in stop_nodes(world.driver, ["c002"], world.host, reporter=world.reporter).changed


def test_what_runs_nobody_can_tell_where_ends_unannounced_on_no_node(world: World) -> None:
    job = {**JOB, "node": None, "name": "?", "reason": "order.json is a FIFO"}
    told = {"schema": "gpuprov.jobs/v1", "version": 1, "jobs": [job], "older": 0}
    world.workers._list_live = lambda: told  # type: ignore[method-assign]
    with pytest.raises(UsageError):
        stop_nodes(world.driver, ["c002"], world.host, reporter=world.reporter)
    assert world.engine.nodes["c002"].status == "running"


@pytest.mark.parametrize("place", ["", "c001", ".c001"])
@pytest.mark.parametrize("state", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to(path)])
def test_what_a_job_puts_where_nodes_are_held_keeps_no_node_from_stopping(
    world: World, place: str, state: Callable[[Path], object]
) -> None:
    path = world.workers.folder / HELD / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if not place and path.exists():
        path.rmdir()
    state(path)
    assert "stopped c001" in stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter).changed


def test_a_cluster_that_went_keeps_no_later_one_of_its_name_from_work(world: World) -> None:
    run_job(world, looks=1)
    world_down(world)
    assert world.names == []
    for name in world.workers.held:  # whoever took the cluster down has ended
        held = world.workers.folder / HELD / name
        held.write_text(held.read_text().replace(describe_owner(os.getpid()), GONE))
    assert len(world.workers.held) == 3
    assert not [line for line in up(world).changed if "resume" in line]
    assert world.workers.held == []


def world_down(world: World) -> None:
    cluster_down(world.driver, "lab", world.host, reporter=world.reporter, policy=JobsPolicy(drain_s=60))


def test_what_another_process_holds_stays_its(world: World) -> None:
    other = describe_owner(os.getppid())
    leave_held(world, "c001", other)
    assert up(world).unchanged
    (warning,) = [line for line in world.reporter.lines if "starts no runs" in line]
    assert other in warning
    assert warning.endswith("gpuprov exec c000 -- rm /shared/jobs/.held/c001")
    stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    assert (world.workers.folder / HELD / "c001").read_text() == f"{other}\n"


def test_what_a_job_put_there_is_not_believed(world: World) -> None:
    folder = world.workers.folder / HELD
    for name, content in {
        "c001": "no owner", "c002": GONE + " and more", "a b": GONE, "c\n000": GONE, "-rf": GONE, "c000": "x" * 10**6,
    }.items():  # fmt: skip
        leave_held(world, name, content)
    (folder / "c003").symlink_to("/etc/passwd")
    (folder / "c004").mkdir()
    state = observe_cluster(world.driver, "lab")
    assert ROLES["worker"].abandoned(world.driver, state) == ()
    assert up(world).unchanged


def test_a_folder_in_which_nothing_can_be_written_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    full = ExecResult(exit_code=1, stdout="", stderr="sh: 1: cannot create .c001: No space left on device")
    answer = world.workers.__class__.__call__

    def say(fake: Any, command: Any) -> ExecResult:
        return full if "out-of-service" in command.argv and len(command.argv) > 8 else answer(fake, command)

    monkeypatch.setattr(world.workers.__class__, "__call__", say)
    with pytest.raises(UsageError, match="cannot tell whether jobs run on c001") as caught:
        stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter)
    assert "No space left on device" in caught.value.evidence
    stop_nodes(world.driver, ["c001"], world.host, reporter=world.reporter, policy=JobsPolicy(force=True))
    monkeypatch.undo()
    assert isinstance(caught.value.__cause__, EngineError)


def test_the_program_in_the_node_looks_for_the_same_file(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "c001")
    state = observe_cluster(world.driver, "lab")
    ROLES["worker"].take_out_of_service(world.driver, state, ["c001"])
    assert is_held(world.workers.folder)
    monkeypatch.setattr("platform.node", lambda: "c002")
    assert not is_held(world.workers.folder)
