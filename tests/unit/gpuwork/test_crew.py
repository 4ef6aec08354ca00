"""The crew keeps a worker for each GPU, and takes all of them with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpuwork import crew
from gpuwork.broker import ask_workers
from tests.fakes.worker_bed import ROOT
from tests.unit.gpuwork.conftest import lives, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fakes.worker_bed import WorkerBed

pytestmark = pytest.mark.slow

# What the stand-in for a worker does: it writes down who it is, and obeys its leash.
WORKER = """
import pathlib, os, sys
with pathlib.Path(sys.argv[2]).open("a") as file:
    file.write(f"{os.getpid()} {' '.join(sys.argv[3:])}\\n")
if sys.argv[1] == "fail":
    sys.exit(3)
sys.stdin.read()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a crew whose workers are stand-ins."""
    started = []

    def begin(what: str) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-c", WORKER, what, str(tmp_path / "seen")]
        code = f"import sys; from gpuwork import crew; crew.PROGRAM = {program!r}; sys.exit(crew.main(sys.argv[1:]))"
        argv = [sys.executable, "-c", code, "--gpus", str(tmp_path / "gpus"), "--logs", "/logs", "--", "--broker", "b"]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        with (tmp_path / "said").open("ab") as said:
            started.append(subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stderr=said))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def seen(tmp_path: Path) -> list[str]:
    """A line for each worker that began."""
    path = tmp_path / "seen"
    return path.read_text().splitlines() if path.exists() else []


def test_each_line_is_a_worker_and_a_signal_ends_all(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    (tmp_path / "gpus").write_text("GPU-0001\n\nGPU-0002\nGPU-0001\n")
    process = start("stay")
    wait_until(lambda: len(seen(tmp_path)) == 2, "two workers")
    node = os.uname().nodename
    assert sorted(line.partition(" ")[2] for line in seen(tmp_path)) == [
        f"--gpu GPU-000{number + 1} --log /logs/{node}/worker-{number}.log --leashed --broker b" for number in (0, 1)
    ]
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert not [line for line in seen(tmp_path) if lives(line.split()[0])]


def test_a_killed_crew_takes_its_workers_with_it(tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    (tmp_path / "gpus").write_text("GPU-0001\nGPU-0002\n")
    process = start("stay")
    wait_until(lambda: len(seen(tmp_path)) == 2, "two workers")
    process.kill()
    wait_until(lambda: not [line for line in seen(tmp_path) if lives(line.split()[0])], "they live on", limit_s=5)


def test_a_node_without_a_gpu_waits_for_one(tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start("stay")
    wait_until(lambda: "this node has no GPU in" in (tmp_path / "said").read_text(), "it says so")
    assert process.poll() is None
    (tmp_path / "gpus").write_text("GPU-0001\n")
    wait_until(lambda: len(seen(tmp_path)) == 1, "a worker")
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0


def test_a_worker_that_is_killed_is_started_again(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    (tmp_path / "gpus").write_text("GPU-0001\n")
    start("stay")
    wait_until(lambda: len(seen(tmp_path)) == 1, "a worker")
    os.kill(int(seen(tmp_path)[0].split()[0]), signal.SIGKILL)
    wait_until(lambda: len(seen(tmp_path)) == 2, "again")
    assert "a worker ended with status -9; again in 1 s: GPU-0001" in (tmp_path / "said").read_text()


@pytest.mark.usefixtures("in_bare_python")
def test_the_pause_grows_while_a_worker_ends_at_once_and_only_then() -> None:
    member = crew.CrewMember("GPU-0001", [sys.executable, "-c", "raise SystemExit(3)"])
    now, begun, pauses = 100.0, 0.0, []
    for lived_s in (0, 0, 0, 0, 0, 60, 0):
        member.look(now)
        (process,) = filter(None, [member.process])
        process.wait()
        begun, now = now, now + lived_s
        member.look(now)
        while member.process is None:
            now += 0.25
            member.look(now)
        pauses.append(now - begun - lived_s)
        member.wait()
        member.process = None
        member._begin_at = now
    assert pauses == [1, 2, 4, 8, 10, 1, 2]


def test_real_workers_answer_and_end_with_a_killed_crew(bed: WorkerBed, tmp_path: Path) -> None:
    (tmp_path / "gpus").write_text("GPU-0001\nGPU-0002\n")
    (tmp_path / "sitecustomize.py").write_text("from tests.fakes.brokerfolder import register\nregister()\n")
    options = ["--gpus", str(tmp_path / "gpus"), "--logs", str(bed.logs)]
    options += ["--", "--broker", str(bed.url_file), "--folder", str(bed.jobs)]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}", "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen([sys.executable, "-m", "gpuwork.crew", *options], env=env, stdin=subprocess.DEVNULL)
    try:
        log = bed.logs / os.uname().nodename / "worker-1.log"
        wait_until(lambda: log.exists() and " ready." in log.read_text(), "the second is ready")
        wait_until(lambda: len(ask_workers(bed.app(), limit_s=1, expected=2)) == 2, "both answer")
        told = ask_workers(bed.app(), limit_s=5, expected=2)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not [one for one in told if lives(str(one.pid))], "they live on", limit_s=20)
