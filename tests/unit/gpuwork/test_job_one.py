"""One run from its first try to its end, as Slurm starts it on a node."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.shapes.job_run import JobRun
from gpuwork import child
from gpuwork.child import STOP_LOOK_S
from gpuwork.errors import Elsewhere, StoreError
from gpuwork.jobs import one
from gpuwork.jobs.one import CANCEL_LOOK_S, run_one
from gpuwork.jobs.run_record import LOST_TRIES
from gpuwork.jobs.store import mark_cancelled, read_run_record, read_submission, write_run_record
from gpuwork.program import program_argv
from tests.schemas import validate
from tests.unit.gpuwork.conftest import lives, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow

UUID = "GPU-5fd4f087-86f3-0b8f-8f46-1234567890ab"


def run(folder: Path, number: int = 0) -> JobRun:
    return run_one(folder, number, stop=threading.Event())


def log_of(folder: Path, number: int = 0) -> str:
    return (folder / f"runs/{number}/log.txt").read_text()


def test_a_run_has_a_log_and_an_end_that_is_never_written_again(held: Jobs) -> None:
    folder = held.submitted("sh", "-c", "echo out; echo err >&2; echo $GPUWORK_RUN $PWD")
    record = run(folder)
    assert (record.state, record.exit_status, record.tries, record.reason) == ("done", 0, 1, None)
    assert (record.node, record.gpus) == (os.uname().nodename, ())
    assert log_of(folder) == f"out\nerr\n{folder}/runs/0 {folder}/runs/0/work\n"
    done = (folder / "runs/0/done.json").read_bytes()
    validate(json.loads(done))
    assert run(folder) == record
    assert (folder / "runs/0/done.json").read_bytes() == done
    assert log_of(folder).count("out") == 1, "it is not run again"


def test_the_kernel_ends_a_command_before_the_services_of_its_node(held: Jobs) -> None:
    before = Path("/proc/self/oom_score_adj").read_text()
    folder = held.submitted("sh", "-c", "cat /proc/self/oom_score_adj; sleep 0.2; nice")
    run(folder)
    assert log_of(folder) == "900\n10\n", "and it has the processor after them"
    assert Path("/proc/self/oom_score_adj").read_text() == before


def test_each_run_has_its_number(held: Jobs) -> None:
    folder = held.submitted("echo", "seed-{n}", count=3)
    for number in (2, 0):
        assert run(folder, number).state == "done"
    assert [log_of(folder, 0), log_of(folder, 2)] == ["seed-0\n", "seed-2\n"]
    assert [row["state"] for row in held.rows()] == ["done", "waiting", "done"]
    with pytest.raises(StoreError, match="has no run 3"):
        run(folder, 3)


def test_a_run_that_fails_is_tried_as_often_as_it_may_and_keeps_its_log(held: Jobs) -> None:
    folder = held.submitted("sh", "-c", "echo try; echo no luck >&2; exit 7", retries=2)
    record = run(folder)
    assert (record.state, record.exit_status, record.tries) == ("failed", 7, 3)
    assert record.reason == "exit status 7: no luck"
    assert log_of(folder).count("try\nno luck\n") == 3
    assert log_of(folder).count("--- try ") == 2


def test_a_retry_may_succeed(held: Jobs) -> None:
    folder = held.submitted("sh", "-c", "test -e seen || { touch seen; exit 1; }", retries=5)
    record = run(folder)
    assert (record.state, record.tries, record.failed, record.reason) == ("done", 2, 1, None)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["no-such-program"], "exit status 127: no-such-program: No such file or directory"),
        (["/etc/passwd"], "exit status 127: /etc/passwd: Permission denied"),
        (["sh", "-c", "kill -SEGV $$"], "exit status 139"),
    ],
)
def test_why_a_run_failed(held: Jobs, command: list[str], words: str) -> None:
    record = run(held.submitted(*command))
    assert (record.state, record.reason) == ("failed", words)


def test_a_command_that_is_always_killed_is_tried_some_more_and_then_failed(held: Jobs) -> None:
    folder = held.submitted("sh", "-c", "echo here; kill -KILL $$")
    record = run(folder)
    assert (record.state, record.exit_status, record.tries) == ("failed", 137, LOST_TRIES + 1)
    assert record.reason == "4 tries were killed; of the last one: exit status 137: here"
    assert log_of(folder).count("here\n") == 4


def test_a_program_that_is_always_killed_is_failed_too(held: Jobs) -> None:
    folder = held.submitted("true")
    (folder / "runs/0").mkdir()
    began = JobRun(state="running", tries=LOST_TRIES + 1, lost=LOST_TRIES, node="c009")
    write_run_record(folder / "runs/0", began)
    record = run(folder)
    assert (record.state, record.tries, record.node) == ("failed", LOST_TRIES + 1, "c009")
    assert not (folder / "runs/0/log.txt").exists()


def test_a_try_that_takes_too_long_is_ended_and_counts_as_failed(held: Jobs) -> None:
    folder = held.submitted("sh", "-c", "echo began; sleep 600", time_limit_s=1)
    record = run(folder)
    assert (record.state, record.exit_status, record.tries) == ("failed", None, 1)
    assert record.reason == "ended after its time limit of 1 s"


STUBBORN = """
import os, signal, subprocess, sys, time
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
first = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
second = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, start_new_session=True)
for one in (first, second):
    one.stdout.readline()
with open("part", "w") as file:
    file.write(f"{os.getpid()} {first.pid} {second.pid}")
os.rename("part", "pids")
time.sleep(600)
"""


def pids_of(folder: Path) -> list[str]:
    path = folder / "runs/0" / "work/pids"
    wait_until(path.exists, "the command has not begun")
    return path.read_text().split()


def stopped(folder: Path, before: Callable[[], None]) -> tuple[JobRun, list[str]]:
    """The record of a run that is told to stop, and its processes."""
    stop, ended = threading.Event(), []
    thread = threading.Thread(target=lambda: ended.append(run_one(folder, 0, stop=stop)))
    thread.start()
    pids = pids_of(folder)
    before()
    stop.set()
    thread.join()
    return ended[0], pids


def test_cancel_ends_the_whole_group_within_ten_seconds(held: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2 * child._GRACE_S <= 10, "what ignores SIGTERM, and what hangs after SIGKILL"
    monkeypatch.setattr(child, "_GRACE_S", 0.3)
    folder = held.submitted(sys.executable, "-c", STUBBORN)
    record, pids = stopped(folder, lambda: mark_cancelled(read_submission(folder), None))
    assert record.state == "cancelled"
    assert not list(filter(lives, pids)), "a grandchild that ignores SIGTERM, and one with a session of its own"
    assert run(folder).state == "cancelled"


def test_a_run_is_not_cancelled_while_a_process_of_it_lives(held: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = held.submitted("sh", "-c", "echo $$ >part; mv part pids; sleep 600")
    left = iter([[], [7, 8], [8], []])  # the first before the try
    told: list[JobRun] = []

    def end(_marks: object) -> list[int]:
        told.append(read_run_record(folder / "runs/0"))
        return next(left)

    monkeypatch.setattr(one, "end_leftovers", end)
    record, _ = stopped(folder, lambda: mark_cancelled(read_submission(folder), None))
    node = os.uname().nodename
    reasons = [None, f"2 of its processes do not end on {node}: 7, 8", f"1 of its processes do not end on {node}: 8"]
    assert [(record.state, record.reason) for record in told[1:]] == [("running", reason) for reason in reasons]
    assert (record.state, record.reason) == ("cancelled", None)


def test_a_run_that_is_stopped_and_not_cancelled_has_no_end_and_goes_on_later(
    held: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_GRACE_S", 0.3)
    folder = held.submitted("sh", "-c", "test -e pids && exit 0; echo $$ >part; mv part pids; sleep 600")
    record, pids = stopped(folder, lambda: None)
    assert (record.state, record.tries, record.lost) == ("waiting", 1, 0)
    assert not list(filter(lives, pids))
    record = run(folder)
    assert (record.state, record.tries, record.failed, record.lost) == ("done", 2, 0, 0)


def test_a_run_that_waits_for_its_next_try_has_not_ended(held: Jobs) -> None:
    folder = held.submitted("true")
    (folder / "runs/0").mkdir()
    moment = "2026-11-22T16:40:12Z"
    before = JobRun(tries=1, failed=1, node="c001", started=moment, ended=moment, exit_status=1, reason="exit status 1")
    write_run_record(folder / "runs/0", before)
    (row,) = held.rows("1")
    assert (row["state"], row["tries"], row["ended"], row["exit_status"]) == ("waiting", 1, None, None)
    record = run(folder)
    (row,) = held.rows("1")
    assert (row["state"], row["tries"], row["ended"], row["exit_status"]) == ("done", 2, record.ended, 0)


@pytest.mark.parametrize("trap", ["", "trap 'exit 0' TERM;", "trap 'exit 1' TERM;"])
def test_a_command_that_had_the_signal_first_was_stopped_and_is_neither_done_nor_failed(
    held: Jobs, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    """Slurm signals all processes of a task, in whatever order."""
    monkeypatch.setattr(one, "_TOGETHER_S", 30)
    folder = held.submitted("sh", "-c", f"{trap} echo $$ >part; mv part pids; sleep 600")
    stop, ended = threading.Event(), []
    thread = threading.Thread(target=lambda: ended.append(run_one(folder, 0, stop=stop)))
    thread.start()
    os.killpg(int(pids_of(folder)[0]), signal.SIGTERM)
    time.sleep(0.3)
    stop.set()
    thread.join()
    assert [record.state for record in ended] == ["waiting"]


def test_a_cancelled_run_does_not_begin(held: Jobs) -> None:
    folder = held.submitted("touch", "begun", count=2)
    mark_cancelled(read_submission(folder), 1)
    assert [run(folder, number).state for number in (0, 1)] == ["done", "cancelled"]
    assert (folder / "runs/0" / "work/begun").exists()
    assert not (folder / "runs/1/work").exists()


def test_one_process_at_a_time_works_on_a_run(held: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one, "PATIENCE_S", 0.3)
    folder = held.submitted("sh", "-c", "touch pids; sleep 600")
    stop = threading.Event()
    thread = threading.Thread(target=lambda: run_one(folder, 0, stop=stop))
    thread.start()
    wait_until((folder / "runs/0" / "work/pids").exists, "the command has not begun")
    with pytest.raises(Elsewhere, match="the run 1 is running elsewhere"):
        run(folder)
    stop.set()
    thread.join()


def test_what_a_killed_try_left_running_is_ended_before_the_next_begins(held: Jobs) -> None:
    mine = held.folder / "1/runs/0"
    left, other = (
        subprocess.Popen(
            ["sleep", "600"], env={"PATH": os.environ["PATH"], "GPUWORK_RUN": str(run)}, start_new_session=True
        )
        for run in (mine, f"{mine}0")
    )
    folder = held.submitted("sh", "-c", f"test -z \"$(tr -d '\\0' </proc/{left.pid}/environ)\"")
    assert run(folder).state == "done"
    assert left.wait(10) == -signal.SIGKILL
    assert lives(other.pid), "another run's"
    other.kill()
    other.wait(10)


def test_a_run_of_which_something_lives_on_another_node_is_not_begun_again(
    held: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both programs around the command were killed; here it is out of reach, as on another node."""
    monkeypatch.setattr(one, "PATIENCE_S", 0.3)
    script = "ulimit -S -x 0; echo $$ >part; mv part pids; exec sleep 600"
    script = f"test -e pids && exit 0; exec env -u GPUWORK_RUN bash -c '{script}'"
    folder = held.submitted("sh", "-c", script)
    program = subprocess.Popen([*program_argv("gpuwork.jobs.one", str(folder), "0")])
    (pid,) = pids_of(folder)
    program.kill()
    program.wait(10)
    with pytest.raises(Elsewhere, match="the run 1 is running elsewhere"):
        run(folder)
    assert read_run_record(folder / "runs/0").tries == 1
    os.kill(int(pid), signal.SIGKILL)
    wait_until(lambda: not lives(pid), "it was killed")
    record = run(folder)
    assert (record.state, record.tries, record.lost) == ("done", 2, 1)


def test_a_run_on_a_leash_ends_with_whoever_holds_it(held: Jobs) -> None:
    folder = held.submitted("sh", "-c", "echo $$ >part; mv part pids; sleep 600")
    argv = program_argv("gpuwork.jobs.one", str(folder), "0", one.LEASHED)
    program = subprocess.Popen(argv, stdin=subprocess.PIPE)
    (pid,) = pids_of(folder)
    assert program.stdin
    program.stdin.close()
    assert program.wait(15) == one.EXIT_STOPPED
    assert not lives(pid)
    assert read_run_record(folder / "runs/0").state == "waiting"


def test_of_two_ends_the_first_one_holds(held: Jobs) -> None:
    """Locks can be lost, as on a network share whose client was cut off."""
    folder = held.submitted("true")
    record = run(folder)
    late = JobRun(state="failed", tries=9, reason="late")
    assert write_run_record(folder / "runs/0", late) == record == read_run_record(folder / "runs/0")
    (folder / "runs/0/done.json").write_text("what a job left there")
    assert write_run_record(folder / "runs/0", late) == late == read_run_record(folder / "runs/0")


def test_a_share_without_hard_links_has_ends_too(held: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("gpuwork.shared_folder.os.link", refuse)
    folder = held.submitted("true")
    record = run(folder)
    assert record.state == "done"
    assert write_run_record(folder / "runs/0", JobRun(state="failed")) == record
    assert {path.name for path in (folder / "runs/0").iterdir()} == {
        ".alive", ".kills", ".lock", "done.json", "home", "log.txt", "state.json", "work",
    }  # fmt: skip


def test_a_mark_is_seen_soon_by_whoever_runs_the_command() -> None:
    """`jobs cancel` waits for it, on workers for both looks."""
    assert CANCEL_LOOK_S + STOP_LOOK_S <= 0.3 + 1e-9


def test_a_run_that_is_marked_as_cancelled_ends_although_nobody_signals_it(held: Jobs) -> None:
    folder = held.submitted("sh", "-c", "touch pids; sleep 600")
    ended: list[JobRun] = []
    thread = threading.Thread(target=lambda: ended.append(run(folder)))
    thread.start()
    wait_until((folder / "runs/0" / "work/pids").exists, "the command has not begun")
    mark_cancelled(read_submission(folder), 0)
    thread.join(10)
    assert [record.state for record in ended] == ["cancelled"]


@pytest.mark.parametrize(("gpus", "visible", "seen"), [(1, "0", (UUID,)), (0, None, ())])
def test_slurm_says_which_gpus_a_run_sees(
    held: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, visible: str | None, seen: tuple[str, ...]
) -> None:
    tool = tmp_path / "slurm/bin/nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho 'GPU 0: SIMULATED (UUID: {UUID})'\n")
    tool.chmod(0o755)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    folder = held.submitted("sh", "-c", 'echo "[$CUDA_VISIBLE_DEVICES]"', gpus=gpus)
    record = run(folder)
    assert (record.gpus, record.simulated) == (seen, bool(seen))
    assert log_of(folder) == f"[{visible or ''}]\n"


def test_a_command_finds_the_frozen_files_and_writes_beside_them(held: Jobs, make: Callable[..., Path]) -> None:
    script = (
        "import model, pathlib\nprint(model.ANSWER, pathlib.Path('data/x').read_text())\nopen('out', 'w').close()\n"
    )
    project = make({"train.py": script, "model.py": "ANSWER = 42\n", "data/x": "data"})
    folder = held.submitted(sys.executable, "train.py", project=str(project))
    (project / "model.py").write_text("ANSWER = 0\n")
    record = run(folder)
    assert record.state == "done", log_of(folder)
    assert log_of(folder) == "42 data\n"
    assert (folder / "runs/0" / "work/out").exists()
    assert not (project / "out").exists()
    elsewhere = held.folder.rename(held.folder.with_name("elsewhere"))
    assert (elsewhere / "1/runs/0" / "work/model.py").read_text() == "ANSWER = 42\n"
    elsewhere.rename(held.folder)


def test_a_frozen_copy_that_was_changed_is_not_run(held: Jobs, make: Callable[..., Path]) -> None:
    folder = held.submitted("sh", "train.sh", project=str(make({"train.sh": "echo good\n"})))
    (copy,) = (folder.parent / ".code").iterdir()
    copy.chmod(0o755)
    (copy / "train.sh").chmod(0o644)
    (copy / "train.sh").write_text("echo evil\n")
    with pytest.raises(StoreError, match="the frozen copy of the project was changed or removed"):
        run(folder)
    assert not (folder / "runs/0/log.txt").exists()


TASKS = "def train(units, *, rate=0.1, **rest):\n    print(repr(units), rate, len(rest))\n    assert units != 13\n"


def test_a_function_is_called_with_its_arguments(held: Jobs, make: Callable[..., Path]) -> None:
    project = make({"app/tasks.py": TASKS, "app/__init__.py": ""})
    order = {"project": str(project), "function": "app.tasks:train"}
    many = {f"parameter_{number}": number for number in range(2000)}
    folder = held.submitted(**order, arguments={"units": "{n}", **many}, count=14)
    assert run(folder, 12).state == "done", log_of(folder, 12)
    assert log_of(folder, 12) == "12 0.1 2000\n"
    record = run(folder, 13)
    assert (record.state, record.reason) == ("failed", "exit status 1: AssertionError")
    assert "Traceback" in log_of(folder, 13)


def test_what_is_still_being_submitted_is_waited_for(held: Jobs) -> None:
    folder = held.submitted("true")
    there, away = folder / "submitted.json", folder / "away.json"
    there.rename(away)
    with pytest.raises(StoreError, match="this was never submitted"):
        run(folder)
    code = (
        "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(folder / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout
    assert holder.stdin
    holder.stdout.readline()
    ended: list[JobRun] = []
    thread = threading.Thread(target=lambda: ended.append(run(folder)))
    thread.start()
    time.sleep(0.3)
    assert thread.is_alive()
    away.rename(there)
    thread.join()
    holder.communicate()
    assert [record.state for record in ended] == ["done"]


def test_a_disk_that_is_full_is_told_and_leaves_no_end(
    held: Jobs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = held.submitted("true")

    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("gpuwork.jobs.store.write_file", full)
        with pytest.raises(SystemExit) as caught:
            one.main(str(folder), "0")
    assert caught.value.code == 3
    err = capsys.readouterr().err
    assert err.startswith("error: the run 1 cannot be written\n  [Errno 28] No space left on device")
    assert f"  next: df -h {folder}/runs/0" in err
    assert read_run_record(folder / "runs/0") == JobRun()
    assert run(folder).state == "done"
