"""Processes that outlive their job are found by marks, and by all of them."""

from __future__ import annotations

import fcntl
import json
import os
import resource
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

pytestmark = pytest.mark.slow

NODE = f"node-{os.getpid()}"
JOB = str(900000 + os.getpid())
MARKS = {"SLURM_JOB_ID": JOB, "SLURMD_NODENAME": NODE}
RUN = f"/shared/jobs/{JOB}/runs/0"
ACCOUNT = 59455
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="begins processes of another account")


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


@pytest.fixture
def left_by_work() -> Iterator[subprocess.Popen[bytes]]:
    """What another account's job left: root of a node of Docker may not read its environment."""
    marks = {"SLURM_JOB_ID": JOB, "SLURMD_NODENAME": NODE}
    left = subprocess.Popen(["/bin/sleep", "60"], env=marks, start_new_session=True, user=ACCOUNT, group=ACCOUNT)
    while not Path(f"/proc/{left.pid}/cmdline").read_bytes().startswith(b"/bin/sleep"):
        time.sleep(0.005)
    yield left
    left.kill()
    left.wait()


def without_ptrace(*argv: str, **environment: str) -> str:
    """The program as root of such a node; returns what it prints."""
    rights = "-sys_ptrace,-sys_admin,-perfmon"  # newer kernels let the last two look as well
    drop = ["setpriv", "--bounding-set", rights, "--inh-caps", rights, "--"]
    text = Path(leftovers.__file__).read_text()
    ran = subprocess.run(
        [*drop, "/usr/bin/python3", "-I", "-c", text, *argv], env=environment, check=True, stdout=subprocess.PIPE
    )
    return ran.stdout.decode()


@as_root
def test_root_that_may_not_look_at_other_accounts_looks_as_them(left_by_work: subprocess.Popen[bytes]) -> None:
    told = json.loads(without_ptrace("SLURM_JOB_ID"))
    assert [one["pid"] for one in told if one["of"] == JOB] == [left_by_work.pid]


def test_who_keeps_its_answer_open_or_never_ends_it_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_ACT_S", 0.1)
    monkeypatch.setattr(leftovers, "_MOST_ANSWER", 10)
    reader, writer = os.pipe()
    os.write(writer, b"[")
    assert leftovers._read_all(reader) is None
    os.write(writer, b"x" * 20)
    assert leftovers._read_all(reader) is None
    os.write(writer, b"[]")
    os.close(writer)
    assert leftovers._read_all(reader) == b"[]"
    os.close(reader)


@as_root
def test_the_epilog_ends_what_root_may_not_look_at(left_by_work: subprocess.Popen[bytes]) -> None:
    without_ptrace(SLURM_JOB_ID=f"{JOB}0", SLURMD_NODENAME=NODE)
    assert left_by_work.poll() is None
    without_ptrace(SLURM_JOB_ID=JOB, SLURMD_NODENAME=NODE)
    assert left_by_work.wait(5) == -9


def test_an_epilog_without_a_job_ends_nothing(begin: Begin) -> None:
    left = begin(SLURM_JOB_ID="", SLURMD_NODENAME=NODE)
    subprocess.run([sys.executable, "-I", leftovers.__file__], env={"SLURMD_NODENAME": NODE}, check=True)
    assert left.poll() is None


def test_what_got_the_number_of_a_process_that_ended_is_left_alone(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = begin(SLURM_JOB_ID=f"{JOB}0", SLURMD_NODENAME=NODE)
    before = b"\0".join(f"{name}={value}".encode() for name, value in MARKS.items())
    looks = iter([before])
    inner = leftovers._environment
    monkeypatch.setattr(
        leftovers, "_environment", lambda pid: next(looks, b"").split(b"\0") if pid == other.pid else inner(pid)
    )
    assert leftovers.end_leftovers(MARKS) == []
    assert next(looks, None) is None
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
    assert leftovers.end_leftovers(MARKS) == [left.pid]
    assert left.poll() is None


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, object]]:
    """Whom a signal was sent, and whose environment was read (None), in turn."""
    told: list[tuple[int, object]] = []
    signalled, read = leftovers._signal, leftovers._environment

    def send(pid: int, wanted: leftovers._Wanted, number: signal.Signals) -> None:
        told.append((pid, number))
        signalled(pid, wanted, number)

    def environment(pid: int) -> list[bytes]:
        told.append((pid, None))
        return read(pid)

    monkeypatch.setattr(leftovers, "_signal", send)
    monkeypatch.setattr(leftovers, "_environment", environment)
    return told


def signals(sent: list[tuple[int, object]]) -> list[tuple[int, object]]:
    return [(pid, number) for pid, number in sent if number is not None]


def test_all_are_stopped_before_one_is_killed(begin: Begin, sent: list[tuple[int, object]]) -> None:
    two = {begin(**MARKS).pid, begin(**MARKS).pid}
    assert leftovers.end_leftovers(MARKS) == []
    assert {number for _, number in signals(sent)[:2]} == {signal.SIGSTOP}
    assert {pid for pid, number in signals(sent)[2:4] if number == signal.SIGKILL} == two


def test_none_is_killed_while_some_are_not_stopped_however_long_it_takes(
    begin: Begin, sent: list[tuple[int, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What forks all the time keeps whoever reads its environment waiting; the dead would only make room for more."""
    pids = iter([begin(**MARKS).pid for _ in range(3)])
    monkeypatch.setattr(leftovers, "_LIMIT_S", 0)
    seen: set[int] = set()

    def one_more() -> list[int]:
        time.sleep(0.05)
        seen.update([pid for pid in [next(pids, 0)] if pid])
        return sorted(seen)

    monkeypatch.setattr(leftovers, "_others", one_more)
    leftovers.end_leftovers(MARKS)
    assert [number for _, number in signals(sent)] == [signal.SIGSTOP] * 3 + [signal.SIGKILL] * 3


def test_what_has_the_tag_of_a_run_is_ended_whatever_its_environment_which_is_read_afterwards(
    begin: Begin, sent: list[tuple[int, object]]
) -> None:
    marked, bare, other, endless = begin(GPUWORK_RUN=RUN), begin(), begin(), begin()
    for process, run in ((bare, RUN), (other, f"{RUN}0")):
        hard = resource.prlimit(process.pid, leftovers.TAG)[1]
        resource.prlimit(process.pid, leftovers.TAG, (leftovers.tag_of(run), hard))
    assert leftovers.find_tagged(RUN) == [bare.pid]
    assert leftovers.end_leftovers({"GPUWORK_RUN": RUN}) == []
    assert (marked.wait(5), bare.wait(5)) == (-9, -9)
    assert [process.poll() for process in (other, endless)] == [None, None]
    assert sent[0] == (bare.pid, signal.SIGSTOP)


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
