"""Processes that the kernel killed for lack of memory, as control groups count them, and what becomes of their runs."""

from __future__ import annotations

import json
import os
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from gpuprov.shapes.job_run import JobRun
from gpuprov.shapes.limits import GIB, MIB
from gpuwork.grid import one as grid_one
from gpuwork.jobs import one
from gpuwork.jobs.one import run_one
from gpuwork.jobs.store import KILLS, write_run_record
from gpuwork.memory_kills import (
    RECENT_S,
    MemoryGroup,
    MemoryKills,
    describe_limit,
    explain_loss,
    find_memory_group,
    ran_out,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.gpuwork.conftest import Jobs

SERVICE = "system.slice/slurmd.service"


class Machine:
    """A machine's /proc and control groups; one process, in a group of a container that has a limit."""

    def __init__(self, folder: Path, *, kind: str = "cgroup2", root: str = "/", path: str = f"/{SERVICE}") -> None:
        self.proc, self.top, self.is_old = folder / "proc", folder / "cgroup", kind == "cgroup"
        self.group = self.top / SERVICE if path.endswith(SERVICE) else self.top
        self.group.mkdir(parents=True)
        (self.proc / "self").mkdir(parents=True)
        options, number = ("rw,memory", "4:memory") if self.is_old else ("rw", "0:")
        mount = f"96 95 0:32 {root} {self.top} rw,nosuid shared:141 - {kind} cgroup {options}\n"
        (self.proc / "self/mountinfo").write_text(f"95 1 0:1 / /proc rw - proc proc rw\n{mount}")
        (self.proc / "self/cgroup").write_text(f"9:name=systemd:/\n{number}:{path}\n")
        (self.proc / "meminfo").write_text("MemTotal:       67108864 kB\nMemFree: 1 kB\n")
        self.boot("first")
        self.limit(self.top, str(GIB))
        self.limit(self.group, "9223372036854771712" if self.is_old else "max") if self.group != self.top else None
        self.count(0)

    def limit(self, folder: Path, words: str) -> None:
        (folder / ("memory.limit_in_bytes" if self.is_old else "memory.max")).write_text(f"{words}\n")

    def boot(self, name: str) -> None:
        (self.proc / "sys/kernel/random").mkdir(parents=True, exist_ok=True)
        (self.proc / "sys/kernel/random/boot_id").write_text(f"{name}\n")

    @property
    def counter(self) -> Path:
        return self.group / ("memory.oom_control" if self.is_old else "memory.events")

    def count(self, kills: int) -> None:
        self.counter.write_text(f"oom 9\nunder_oom 0\noom_kill {kills}\noom_group_kill 0\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.mark.parametrize(
    "make",
    [
        partial(Machine),
        partial(Machine, kind="cgroup"),
        partial(Machine, root="/docker/0123", path="/docker/0123"),
        partial(Machine, kind="cgroup", root="/docker/0123", path="/docker/0123"),
        partial(Machine, root="/../../machine", path="/"),
    ],
)
def test_kills_and_the_limit_are_read_of_every_kind_of_group(make: Callable[..., Machine], tmp_path: Path) -> None:
    machine = make(tmp_path)
    group = find_memory_group(machine.proc)
    assert group is not None
    assert (group.folder, group.count_kills(), group.find_limit()) == (machine.group, 0, GIB)
    machine.count(3)
    assert group.count_kills() == 3


def test_a_machine_that_does_not_count_has_no_group(machine: Machine, tmp_path: Path) -> None:
    machine.counter.unlink()
    assert find_memory_group(machine.proc) is None
    assert find_memory_group(tmp_path / "none") is None
    kills = MemoryKills(proc=machine.proc)
    assert kills.explain(137, "exit status 137") == "exit status 137"


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (str(GIB), "limit 1 GiB"),
        (str(900 * GIB), "no limit; the machine has 64 GiB"),
        ("max", "no limit; the machine has 64 GiB"),
        (str(1536 * MIB), "limit 1.5 GiB"),
        (str(700 * MIB), "limit 700 MiB"),
    ],
)
def test_the_limit_in_words(machine: Machine, limit: str, words: str) -> None:
    machine.limit(machine.top, limit)
    group = MemoryGroup(folder=machine.group, top=machine.top, kind="cgroup2")
    assert describe_limit(group, machine.proc) == words


def test_only_what_was_killed_shortly_before_explains_an_end(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    kills = MemoryKills(proc=machine.proc)
    assert kills.explain(137, "exit status 137") == "exit status 137", "killed by somebody"
    machine.count(1)
    assert kills.explain(137, "exit status 137") == "out of memory (limit 1 GiB)"
    told = kills.explain(1, "exit status 1: a loader died")
    assert told == "exit status 1: a loader died; shortly before, a process of its node ran out of memory (limit 1 GiB)"
    assert not ran_out(told)
    monkeypatch.setattr("gpuwork.memory_kills.RECENT_S", -RECENT_S)
    assert kills.explain(137, "exit status 137") == "exit status 137", "another job's, long ago"


RUN_OUT = "echo here; echo oom_kill 1 >{counter}; kill -KILL $$"


@pytest.mark.parametrize("retries", [0, 5])
def test_a_run_that_runs_out_of_memory_says_so_and_is_tried_once(
    held: Jobs, machine: Machine, monkeypatch: pytest.MonkeyPatch, retries: int
) -> None:
    monkeypatch.setattr(one, "MemoryKills", partial(MemoryKills, proc=machine.proc))
    folder = held.submitted("sh", "-c", RUN_OUT.format(counter=machine.counter), retries=retries)
    record = run_one(folder, 0, stop=threading.Event())
    assert (record.state, record.exit_status, record.tries) == ("failed", 137, 1)
    assert record.reason == "out of memory (limit 1 GiB)"
    (row,) = held.rows("1")
    assert (row["state"], row["tries"], row["reason"]) == ("failed", 1, "out of memory (limit 1 GiB)")


def test_a_run_whose_program_was_killed_with_it_is_not_begun_again(
    held: Jobs, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one, "explain_loss", partial(explain_loss, proc=machine.proc))
    folder = held.submitted("touch", "begun")
    run = folder / "runs/0"
    run.mkdir()
    MemoryKills(proc=machine.proc, note=run / KILLS)
    write_run_record(run, JobRun(state="running", tries=1, node=os.uname().nodename))
    assert explain_loss(run / KILLS, proc=machine.proc) is None, "its node was lost"
    machine.count(1)
    record = run_one(folder, 0, stop=threading.Event())
    assert (record.state, record.tries, record.reason) == ("failed", 1, "out of memory (limit 1 GiB)")
    assert not (run / "work").exists()


@pytest.mark.parametrize(
    "note",
    ["", "elsewhere {life} 0\n", "{node} {life} -1\n", "{node} {life} 0 0\n", "{node}\n", "{node} {life} {many}\n"],
)
def test_a_note_of_another_node_or_none_explains_nothing(machine: Machine, tmp_path: Path, note: str) -> None:
    MemoryKills(proc=machine.proc, note=tmp_path / "note")
    node, life, _ = (tmp_path / "note").read_text().split(" ")
    (tmp_path / "note").write_text(note.format(node=node, life=life, many="1" * 5000))
    machine.count(7)
    assert explain_loss(tmp_path / "note", proc=machine.proc) is None
    assert explain_loss(tmp_path / "none", proc=machine.proc) is None


@pytest.mark.parametrize("is_machine", [True, False])
def test_what_is_killed_after_a_restart_is_not_why_a_run_was_lost_before(
    machine: Machine, tmp_path: Path, is_machine: bool
) -> None:
    """All runs of a node that lost its power are lost; the first one that runs out of memory afterwards is one."""
    MemoryKills(proc=machine.proc, note=tmp_path / "note")
    if is_machine:
        machine.boot("later")
    else:
        machine.counter.parent.rename(tmp_path / "gone")
        machine.group.mkdir()
    machine.count(1)
    assert explain_loss(tmp_path / "note", proc=machine.proc) is None


def test_a_run_of_a_grid_that_runs_out_of_memory_has_its_end_and_tells_whoever_began_it(
    make: Callable[..., Path], machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gpuwork.grid.cli import main

    monkeypatch.setattr(grid_one, "MemoryKills", partial(MemoryKills, proc=machine.proc))
    job = f"import os\ndef main(values):\n    os.system({RUN_OUT.format(counter=machine.counter)!r})\n"
    job += "    os.kill(os.getpid(), 9)\n"
    project = make({"grid.yaml": "grid: {lr: [0.1]}\n", "job.py": job})
    assert main(["prepare", str(project)]) == 0
    prepared = json.loads(capsys.readouterr().out)
    assert main(["one", prepared["folder"], "0", "--retries", "5"]) == 137
    run = project / "runs" / prepared["runs"][0]
    done = json.loads((run / "done.json").read_text())
    assert (done["state"], done["exit_status"], done["reason"]) == ("failed", 137, "out of memory (limit 1 GiB)")
    assert main(["one", prepared["folder"], "0"]) == 1, "it had ended before"
