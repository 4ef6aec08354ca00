"""Processes that outlive their job are found by marks, and by all of them."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuwork.jobs import leftovers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Begin = Callable[..., subprocess.Popen[bytes]]

NODE = f"node-{os.getpid()}"
JOB = str(900000 + os.getpid())


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Starts a process with an environment of its own."""
    begun: list[subprocess.Popen[bytes]] = []

    def start(**marks: str) -> subprocess.Popen[bytes]:
        begun.append(subprocess.Popen(["/bin/sleep", "60"], env=marks, start_new_session=True))
        while not Path(f"/proc/{begun[-1].pid}/cmdline").read_bytes().startswith(b"/bin/sleep"):
            time.sleep(0.005)
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.wait()


def epilog(job: str) -> None:
    """As slurmd runs it."""
    text = Path(leftovers.__file__).read_text()
    environment = {"SLURM_JOB_ID": job, "SLURMD_NODENAME": NODE}
    subprocess.run([sys.executable, "-I", "-c", text], env=environment, check=True)


def test_the_epilog_ends_what_slurm_began_for_that_job_alone(begin: Begin) -> None:
    left = begin(SLURM_JOB_ID=JOB, SLURMD_NODENAME=NODE)
    longer = begin(SLURM_JOB_ID=f"{JOB}0", SLURMD_NODENAME=NODE)
    shell = begin(SLURM_JOB_ID=JOB)  # of salloc
    elsewhere = begin(SLURM_JOB_ID=JOB, SLURMD_NODENAME=f"{NODE}x")
    epilog(JOB)
    assert left.wait(5) == -9
    assert [process.poll() for process in (longer, shell, elsewhere)] == [None, None, None]


def test_an_epilog_without_a_job_ends_nothing(begin: Begin) -> None:
    left = begin(SLURM_JOB_ID="", SLURMD_NODENAME=NODE)
    subprocess.run([sys.executable, "-I", leftovers.__file__], env={"SLURMD_NODENAME": NODE}, check=True)
    assert left.poll() is None


def test_what_got_the_number_of_a_process_that_ended_is_left_alone(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = begin(SLURM_JOB_ID=f"{JOB}0", SLURMD_NODENAME=NODE)
    marks = {"SLURM_JOB_ID": JOB, "SLURMD_NODENAME": NODE}
    before = [f"{name}={value}".encode() for name, value in marks.items()]
    looks = iter([[(other.pid, before)]])
    monkeypatch.setattr(leftovers, "_environments", lambda: iter(next(looks, [])))
    assert leftovers.end_leftovers(marks) == []
    time.sleep(0.05)
    assert other.poll() is None
    assert "T (stopped)" not in Path(f"/proc/{other.pid}/status").read_text()


def test_a_process_that_may_not_be_killed_is_given_up(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    left = begin(SLURM_JOB_ID=JOB, SLURMD_NODENAME=NODE)
    monkeypatch.setattr(leftovers, "_LIMIT_S", 0.1)
    monkeypatch.setattr("signal.pidfd_send_signal", refuse)
    monkeypatch.setattr("os.kill", refuse)
    assert leftovers.end_leftovers({"SLURM_JOB_ID": JOB, "SLURMD_NODENAME": NODE}) == [left.pid]
    assert left.poll() is None


def test_all_are_stopped_before_one_is_killed(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = {"SLURM_JOB_ID": JOB, "SLURMD_NODENAME": NODE}
    two = {begin(**marks).pid, begin(**marks).pid}
    sent: list[tuple[int, signal.Signals]] = []
    inner = leftovers._signal

    def tell(pid: int, wanted: set[bytes], number: signal.Signals) -> None:
        sent.append((pid, number))
        inner(pid, wanted, number)

    monkeypatch.setattr(leftovers, "_signal", tell)
    assert leftovers.end_leftovers(marks) == []
    assert {number for _, number in sent[:2]} == {signal.SIGSTOP}
    assert {pid for pid, number in sent[2:4] if number == signal.SIGKILL} == two


def test_marked_processes_are_listed_with_whether_somebody_works_on_the_run(begin: Begin, tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    process = begin(GPUWORK_RUN=str(tmp_path))

    def listed() -> list[object]:
        argv = [sys.executable, "-I", leftovers.__file__, "GPUWORK_RUN"]
        said = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
        return [(one["owned"], one["command"]) for one in said if one["pid"] == process.pid]

    assert listed() == [(False, "/bin/sleep 60")]
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert listed() == [(True, "/bin/sleep 60")]
    lock.unlink()
    os.mkfifo(lock)  # opening one waits for a writer
    assert listed() == [(False, "/bin/sleep 60")]
