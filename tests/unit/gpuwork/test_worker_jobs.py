"""Jobs on real workers: the same orders, documents and states as on Slurm. What is lost on the way is lost for good."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuwork.jobs.leftovers import VARIABLE, find_marked
from gpuwork.worker.keeper import LOOK_S
from tests.fakes.brokerfolder import count_messages
from tests.schemas import validate
from tests.unit.gpuwork.conftest import lives, wait_until
from tests.unit.gpuwork.test_job_one import STUBBORN
from tests.unit.gpuwork.test_job_program import LONG, begun

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow  # real workers, and what they wait for

ONE, TWO = "GPU-0001", "GPU-0002"


def test_what_is_submitted_is_run_by_a_worker(bed: WorkerBed, queued: Jobs) -> None:
    bed.start()
    queued.submit("sh", "-c", "echo run {n} sees $CUDA_VISIBLE_DEVICES", count=2, gpus=1, name="sweep")
    rows = queued.wait("1")
    assert [(row["id"], row["state"], row["tries"], row["gpus"]) for row in rows] == [
        ("1.0", "done", 1, [ONE]),
        ("1.1", "done", 1, [ONE]),
    ]
    assert queued("logs", "1.1")["text"] == f"run 1 sees {ONE}\n"
    (shown,) = queued("show", "1.0")["submissions"]
    assert shown["slurm"] == []
    for name in ("order.json", "submitted.json", "runs/0/done.json"):
        validate(json.loads((queued.folder / "1" / name).read_text()))
    wait_until(lambda: count_messages(bed.broker, "gpuwork") == (0, 0), "all is acknowledged")


def test_a_function_tries_and_the_time_limit(bed: WorkerBed, queued: Jobs, make: Callable[..., Path]) -> None:
    project = make({"app.py": "def train(units):\n    print('units', units)\n"})
    queued.submit(project=str(project), function="app:train", arguments={"units": "{n}"}, count=2)
    queued.submit("sh", "-c", "echo no luck; exit 7", retries=1)
    queued.submit("sleep", "600", time_limit_s=1)
    bed.start()
    assert [row["state"] for row in queued.wait("1")] == ["done", "done"]
    assert queued("logs", "1.1")["text"] == "units 1\n"
    (row,) = queued.wait("2", code=1)
    assert (row["state"], row["tries"], row["reason"]) == ("failed", 2, "exit status 7: no luck")
    assert queued.wait("3", code=1)[0]["reason"] == "ended after its time limit of 1 s"


def test_without_a_worker_jobs_wait_and_are_cancelled(bed: WorkerBed, queued: Jobs) -> None:
    queued.submit("touch", "begun", count=3)
    assert {row["state"] for row in queued.rows()} == {"waiting"}
    assert [row["state"] for row in queued("cancel", "1.1")["jobs"]] == ["cancelled"]
    assert [row["state"] for row in queued.rows()] == ["waiting", "cancelled", "waiting"]
    bed.start()
    queued.wait("1", code=1)
    assert not (queued.folder / "1/runs/1/work").exists()


def test_cancel_ends_all_processes_within_ten_seconds(bed: WorkerBed, queued: Jobs) -> None:
    bed.start()
    queued.submit(sys.executable, "-c", STUBBORN)
    path = queued.folder / "1/runs/0" / "work/pids"
    wait_until(path.exists, "the command has not begun")
    assert [row["state"] for row in queued.rows("1")] == ["running"]
    began = time.monotonic()
    assert [row["state"] for row in queued("cancel", "1")["jobs"]] == ["cancelled"]
    assert time.monotonic() - began < 10
    assert not list(filter(lives, path.read_text().split()))


def test_a_run_whose_worker_is_killed_runs_again_and_ends_once(bed: WorkerBed, queued: Jobs) -> None:
    first = bed.start()
    queued.submit("sh", "-c", LONG)
    command = begun(queued)
    bed.start(TWO)
    first.kill()
    killed = time.monotonic()
    (row,) = queued.wait("1")
    assert (row["state"], row["tries"], row["gpus"]) == ("done", 2, [])
    assert time.monotonic() - killed < 30
    assert not lives(command), "the first try is over before the second begins"


def test_a_worker_that_is_told_to_end_stops_its_run_and_hands_it_over(bed: WorkerBed, queued: Jobs) -> None:
    first = bed.start()
    queued.submit("sh", "-c", LONG)
    command = begun(queued)
    first.send_signal(signal.SIGTERM)
    assert first.wait(20) == 0
    assert not lives(command)
    (row,) = queued.rows()
    assert (row["state"], row["tries"]) == ("waiting", 1)
    assert count_messages(bed.broker, "gpuwork") != (0, 0), "its message is not acknowledged"
    bed.start(TWO)
    (row,) = queued.wait("1")
    record = json.loads((queued.folder / "1/runs/0/done.json").read_text())
    assert (row["state"], row["tries"], record["lost"], record["failed"]) == ("done", 2, 0, 0)


def test_a_run_whose_program_is_killed_begins_again_on_the_same_worker(bed: WorkerBed, queued: Jobs) -> None:
    bed.start()
    queued.submit("sh", "-c", "echo here; test -e seen && exit 0; touch seen; kill -KILL $PPID; sleep 600")
    (row,) = queued.wait("1")
    assert (row["state"], row["tries"]) == ("done", 2)
    queued.submit("sh", "-c", "echo here I am; kill -KILL $PPID; sleep 600")
    (row,) = queued.wait("2", code=1)
    assert (row["state"], row["tries"]) == ("failed", 4)
    assert queued("logs", "2")["text"].count("here I am\n") == 4


def test_what_a_killed_worker_and_program_left_ends_before_the_worker_takes_work(bed: WorkerBed, queued: Jobs) -> None:
    first = bed.start()
    queued.submit("sh", "-c", LONG)
    command = begun(queued)
    for pid in (first.pid, parent_of(command)):
        os.kill(pid, signal.SIGKILL)
    assert lives(command)
    assert [row["state"] for row in queued.rows()] == ["running"], "something of it lives"
    bed.start()
    assert not lives(command)
    assert [row["state"] for row in queued.wait("1")] == ["done"]


def parent_of(pid: str) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_messages_that_the_broker_lost_are_handed_in_again(bed: WorkerBed, queued: Jobs) -> None:
    queued.submit("echo", "{n}", count=5)
    assert bed.lose_messages() == 5
    bed.start()
    assert {row["state"] for row in queued.wait("1")} == {"done"}
    assert "submitted again, because the queue is empty: 5 runs of job 1" in bed.log()


def test_a_broker_that_goes_away_in_the_middle_of_a_run_does_not_begin_it_twice(bed: WorkerBed, queued: Jobs) -> None:
    for gpu in (ONE, TWO):
        bed.start(gpu)
    queued.submit("sh", "-c", "echo began; touch pids; while test -e pids; do sleep 0.1; done", name="long")
    command = queued.folder / "1/runs/0" / "work/pids"
    wait_until(command.exists, "the command has not begun")
    (bed.broker / "down").touch()
    wait_until(lambda: all("Connection to broker lost" in bed.log(gpu) for gpu in (ONE, TWO)), bed.log())
    error = queued.submit("true", code=4)["error"]
    assert "the broker is unreachable" in error["evidence"]
    assert [row["id"] for row in queued.rows()] == ["1"], "nothing was submitted"
    (bed.broker / "down").unlink()
    wait_until(lambda: count_messages(bed.broker, "gpuwork")[1] >= 1, "delivered again")
    time.sleep(2 * LOOK_S)
    command.unlink()
    (row,) = queued.wait("1")
    assert (row["state"], row["tries"]) == ("done", 1)
    assert queued("logs", "1")["text"] == "began\n"
    queued.submit("true")
    assert queued.wait("3")[0]["state"] == "done"


def test_no_more_runs_than_wished_are_under_way(bed: WorkerBed, queued: Jobs) -> None:
    for gpu in (ONE, TWO, "GPU-0003"):
        bed.start(gpu)
    count = "n=$(ls -d ../../*/wor[k]/here 2>/dev/null | wc -l); touch here; echo $n; sleep 0.4; rm here"
    queued.submit("sh", "-c", count, count=8, at_most=2)
    bed.app().send_task("gpuwork.run", ("1", 5), queue="gpuwork", ignore_result=True)  # one more than was handed in
    assert {row["state"] for row in queued.wait("1")} == {"done"}
    seen = [queued("logs", f"1.{number}")["text"].strip() for number in range(8)]
    assert set(seen) <= {"0", "1"}
    assert "1" in seen, "and two at once there were"


def test_a_message_that_is_delivered_twice_runs_once(bed: WorkerBed, queued: Jobs) -> None:
    queued.submit("sh", "-c", "echo once; sleep 1")
    for _ in range(3):
        bed.app().send_task("gpuwork.run", ("1", 0), queue="gpuwork", ignore_result=True)
    for gpu in (ONE, TWO):
        bed.start(gpu)
    queued.wait("1")
    wait_until(lambda: count_messages(bed.broker, "gpuwork") == (0, 0), "all is acknowledged")
    assert queued("logs", "1")["text"] == "once\n"
    assert queued.rows()[0]["tries"] == 1


@pytest.mark.slow
def test_every_run_ends_once_while_workers_are_killed(bed: WorkerBed, queued: Jobs) -> None:
    gpus = [ONE, TWO, "GPU-0003"]
    workers = {gpu: bed.start(gpu) for gpu in gpus}
    queued.submit("sh", "-c", "echo begin >>tries; sleep 0.2; echo end >>tries", count=60, retries=3)
    for kill in range(6):
        time.sleep(1.0)
        gpu = gpus[kill % 3]
        workers[gpu].kill()
        workers[gpu].wait()
        if kill % 2:
            bed.lose_messages()
        workers[gpu] = bed.start(gpu)
    rows = queued.wait("1")
    assert {row["state"] for row in rows} == {"done"}
    for row in rows:
        run = queued.folder / "1/runs" / row["id"].partition(".")[2]
        tries = (run / "work/tries").read_text().split()
        assert tries[-1] == "end", "one that was stopped just before its end may have come to it, and been repeated"
        assert tries.count("begin") <= row["tries"]
        assert (run / "work/tries").stat().st_mtime <= (run / "done.json").stat().st_mtime
    assert not [pid for run in (queued.folder / "1/runs").iterdir() for pid in find_marked({VARIABLE: str(run)})]
