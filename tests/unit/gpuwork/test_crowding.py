"""A run that takes the processes of its node for seconds is ended, and says so."""

from __future__ import annotations

import resource
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from gpuwork import child
from gpuwork.jobs import crowding, one
from gpuwork.jobs.crowding import Crowding
from gpuwork.jobs.leftovers import TAG, tag_of
from gpuwork.jobs.one import run_one

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.gpuwork.conftest import Jobs

SLICE = "system.slice/slurmd.service"
RUN = "/shared/jobs/1/runs/0"


class Pids:
    """A node's control groups of processes: its own, and that of the service that jobs are in."""

    def __init__(self, folder: Path, *, kind: str) -> None:
        self.proc, self.top = folder / "proc", folder / "cgroup"
        self.service = self.top / SLICE
        self.service.mkdir(parents=True)
        (self.proc / "self").mkdir(parents=True)
        options, number = ("rw,pids", "8:pids") if kind == "cgroup" else ("rw", "0:")
        mount = f"96 95 0:32 / {self.top} rw,nosuid shared:141 - {kind} cgroup {options}\n"
        (self.proc / "self/mountinfo").write_text(mount)
        (self.proc / "self/cgroup").write_text(f"{number}:/{SLICE}\n")
        self.say(self.top, "300", 40)
        self.say(self.top / "system.slice", "max", 30)
        self.say(self.service, "240", 20)

    def say(self, folder: Path, limit: str, current: int) -> None:
        (folder / "pids.max").write_text(f"{limit}\n")
        (folder / "pids.current").write_text(f"{current}\n")

    def begin(self, pid: int, threads: int) -> None:
        (self.proc / str(pid)).mkdir()
        (self.proc / f"{pid}/stat").write_text(f"{pid} (a ) b) S {' '.join(map(str, range(4, 20)))} {threads} 21 22\n")


@pytest.fixture(params=["cgroup", "cgroup2"])
def pids(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pids:
    made = Pids(tmp_path / "machine", kind=request.param)
    made.begin(7, 100)
    made.begin(8, 20)
    monkeypatch.setattr(crowding, "find_tagged", lambda run: [7, 8, 9] if run == RUN else [])
    return made


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only moves when it is told to."""
    now = [100.0]
    monkeypatch.setattr("gpuwork.jobs.crowding.time.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("full", "limit"), [("service", 240), ("top", 300)])
def test_a_run_that_has_most_of_what_jobs_may_have_for_three_seconds_is_too_much(
    pids: Pids, seconds: list[float], full: str, limit: int
) -> None:
    look = Crowding(RUN, proc=pids.proc)
    assert not look.look()
    pids.begin(9, limit // 2 - 120)
    pids.say(getattr(pids, full), str(limit), limit - 1)
    assert not look.look()
    seconds[0] += 2.9
    assert not look.look()
    seconds[0] += 0.2
    assert look.look()
    assert look.reason == f"used up the processes that its node has for jobs ({limit // 2} of {limit})"


def test_room_in_between_or_another_run_that_has_most_is_no_reason(pids: Pids, seconds: list[float]) -> None:
    looks = Crowding(RUN, proc=pids.proc), Crowding(f"{RUN}0", proc=pids.proc)
    for current in (240, 200, 240):
        pids.say(pids.service, "240", current)
        assert [look.look() for look in looks] == [False, False]
        seconds[0] += 2
    seconds[0] += 2
    assert [look.look() for look in looks] == [True, False]
    assert looks[1].reason is None


def test_without_a_limit_nothing_is_looked_for(tmp_path: Path) -> None:
    assert not Crowding(RUN, proc=tmp_path).look()


@pytest.mark.parametrize(
    ("release", "uid_map", "room"),
    [
        ("6.1.0-18-amd64", "0 100000 65536", 216),
        ("5.14.0", "0 100000 65536", 216),
        ("5.10.0-28-amd64", "0 100000 65536", None),  # all nodes of the host have this account
        ("6.1.0-18-amd64", "0 0 4294967295", None),  # a machine, or a node of Docker
        ("6.1.0-18-amd64", "", None),
        ("odd", "0 100000 65536", None),
    ],
)
def test_a_run_leaves_slurmd_room_where_its_account_is_counted_alone(
    pids: Pids, release: str, uid_map: str, room: int | None
) -> None:
    (pids.proc / "sys/kernel").mkdir(parents=True)
    (pids.proc / "sys/kernel/osrelease").write_text(f"{release}\n")
    (pids.proc / "self/uid_map").write_text(f"         {uid_map}\n")
    assert Crowding(RUN, proc=pids.proc).room() == room


@pytest.mark.parametrize("seconds_left", [5, 0])
def test_a_run_that_finds_no_room_to_begin_waits_a_while(
    held: Jobs, monkeypatch: pytest.MonkeyPatch, seconds_left: int
) -> None:
    looks = iter([BlockingIOError(11, "Resource temporarily unavailable"), None])
    inner = child.run_group

    def begin(*arguments: Any, **named: Any) -> int | None:
        refused = next(looks)
        if refused:
            raise refused
        return inner(*arguments, **named)

    monkeypatch.setattr(one, "run_group", begin)
    monkeypatch.setattr(crowding, "NO_ROOM_S", seconds_left)
    monkeypatch.setattr(crowding, "_NO_ROOM_LOOK_S", 0.05)
    folder = held.submitted("true")
    record = run_one(folder, 0, stop=threading.Event())
    if seconds_left:
        assert (record.state, record.tries) == ("done", 1)
    else:
        reason = "exit status 126: true: Resource temporarily unavailable"
        assert (record.state, record.reason) == ("failed", reason)


@pytest.mark.parametrize("retries", [0, 5])
def test_a_run_that_takes_all_processes_is_ended_says_so_and_is_tried_once(
    held: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retries: int
) -> None:
    pids = Pids(tmp_path / "machine", kind="cgroup2")
    pids.say(pids.service, "2", 2)
    monkeypatch.setattr(crowding, "PATIENCE_S", 0.1)
    monkeypatch.setattr(crowding.Crowding, "_count_threads", lambda _self, _pid: 1)
    monkeypatch.setattr(one, "Crowding", partial(Crowding, proc=pids.proc))
    record = run_one(held.submitted("sleep", "600", retries=retries), 0, stop=threading.Event())
    reason = "used up the processes that its node has for jobs (1 of 2)"
    assert (record.state, record.exit_status, record.tries, record.reason) == ("failed", None, 1, reason)


def test_a_run_has_its_tag_and_whoever_began_it_has_not(held: Jobs) -> None:
    folder = held.submitted("python3", "-c", f"import resource; print(resource.getrlimit({TAG})[0])")
    before = resource.getrlimit(TAG)
    assert run_one(folder, 0, stop=threading.Event()).state == "done"
    assert (folder / "runs/0/log.txt").read_text() == f"{tag_of(str(folder / 'runs/0'))}\n"
    assert resource.getrlimit(TAG) == before
