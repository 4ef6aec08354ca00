"""Many small runs on workers with a real RabbitMQ, while all of these are killed at random: each run ends once.

Usage: python -m benchmarks.work_faults --rabbitmq /usr/lib/rabbitmq/bin/rabbitmq-server [--runs 10000] [--kills 40]

Debian's rabbitmq-server and erl must be installed, and Celery. Everything is in a temporary folder and on 127.0.0.1.
Without kills, the rate is that of workers that nobody disturbs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from benchmarks.rabbitmq import RabbitMq
from gpuwork.jobs.leftovers import VARIABLE

HOWS: Final = ("worker", "worker", "crew", "node", "broker")
_CREWS: Final = 2
_LONGEST_S: Final = 4 * 3600
_LOOK_S: Final = 0.5


class Bed:
    """Two crews, which stand for nodes, and a broker."""

    def __init__(self, rabbitmq: Path, folder: Path, workers: int) -> None:
        self.folder, self.jobs = folder, folder / "shared/jobs"
        for name in ("shared", "rabbitmq"):
            (folder / name).mkdir()
        self.broker = RabbitMq(rabbitmq, folder / "rabbitmq")
        self.url = folder / "url"
        self.url.touch(mode=0o600)
        self.url.write_text(self.broker.url + "\n")
        for crew in range(_CREWS):
            lines = [f"GPU-{number:08}\n" for number in range(workers) if number % _CREWS == crew]
            (folder / f"gpus-{crew}").write_text("".join(lines))
        self.crews: list[subprocess.Popen[bytes]] = []

    def start_crew(self, crew: int) -> subprocess.Popen[bytes]:
        """The workers of one node."""
        argv = [sys.executable, "-W", "ignore", "-m", "gpuwork.crew", "--gpus", str(self.folder / f"gpus-{crew}")]
        argv += ["--logs", str(self.folder / f"shared/logs-{crew}"), "--", *self.options()]
        with (self.folder / f"crew-{crew}.log").open("ab") as log:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def options(self) -> list[str]:
        """Where the jobs and the broker are."""
        return ["--folder", str(self.jobs), "--broker", str(self.url)]

    def ask(self, *arguments: str, stdin: str = "") -> dict[str, object]:
        """What `gpuwork.jobs` answers."""
        argv = [sys.executable, "-m", "gpuwork.jobs", *self.options(), *arguments]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    def kill(self, how: str) -> None:
        """Kill something, and start again what nobody else would."""
        if how == "broker":
            self.broker.end(signal.SIGKILL)
            time.sleep(random.uniform(0, 3))
            self.broker.start()
            return
        crew = random.randrange(_CREWS)
        process = self.crews[crew]
        workers = children(process.pid)
        if how == "worker":
            victims = [random.choice(workers)] if workers else []
        else:
            victims = [process.pid]
            if how == "node":
                victims += [pid for worker in workers for pid in descendants(worker)]
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if how != "worker":
            process.wait()
            self.crews[crew] = self.start_crew(crew)

    def finish(self) -> None:
        """Leave nothing running."""
        for process in self.crews:
            process.terminate()
        for process in self.crews:
            process.wait()
        self.broker.finish()


def children(pid: int) -> list[int]:
    """The processes that one started, in any of its threads."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """A process, and all that are below it."""
    return [pid, *(below for child in children(pid) for below in descendants(child))]


def main() -> None:
    """Parse the command line, run, print one JSON object; exit with 1 if a run is lost or ended in another way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rabbitmq", type=Path, required=True, metavar="PROGRAM")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    random.seed(asked.seed)
    with ExitStack() as held:
        folder = Path(
            held.enter_context(tempfile.TemporaryDirectory(prefix="work-faults-", ignore_cleanup_errors=True))
        )
        bed = Bed(asked.rabbitmq, folder, asked.workers)
        held.callback(bed.finish)
        told = measure(bed, asked)
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
    sys.exit(told["states"] != {"done": asked.runs} or bool(told["left"]))


def measure(bed: Bed, asked: argparse.Namespace) -> dict[str, object]:
    """Submit, kill, wait, and count."""
    broker_s = bed.broker.start()
    bed.crews = [bed.start_crew(crew) for crew in range(_CREWS)]
    while len(bed.ask("workers", "--expect", str(asked.workers)).get("workers", [])) < asked.workers:  # type: ignore[arg-type]
        time.sleep(_LOOK_S)
    order = {"schema": "gpuprov.job-order/v1", "version": 1, "gpus": 0, "count": asked.runs, "retries": 3}
    began = time.monotonic()
    bed.ask("submit", stdin=json.dumps({**order, "command": ["sh", "-c", "echo ran"]}))
    submit_s = time.monotonic() - began
    kills, done_at = Counter[str](), 0
    waiting = {path: bed.jobs / f"1/runs/{path}/done.json" for path in range(asked.runs)}
    while waiting and time.monotonic() - began < _LONGEST_S:
        time.sleep(_LOOK_S)
        waiting = {number: path for number, path in waiting.items() if not path.exists()}
        share = (asked.runs - len(waiting)) / asked.runs
        if kills.total() < asked.kills and share * (asked.kills + 1) > done_at + 1:
            done_at += 1
            kills[how := random.choice(HOWS)] += 1
            bed.kill(how)
            sys.stderr.write(f"{time.monotonic() - began:7.1f} s  {share:5.0%}  killed: {how}\n")
    took_s = time.monotonic() - began
    jobs = bed.ask("list")["jobs"]
    assert isinstance(jobs, list)  # noqa: S101
    logs = [(bed.jobs / f"1/runs/{number}/log.txt").read_text().count("ran\n") for number in range(asked.runs)]
    return {
        "runs": asked.runs,
        "states": Counter(job["state"] for job in jobs),
        "tries": Counter(job["tries"] for job in jobs),
        "ran": Counter(logs),
        "killed": kills,
        "left": find_left(bed.jobs),
        "broker_ready_s": round(broker_s, 2),
        "submit_s": round(submit_s, 2),
        "seconds": round(took_s, 1),
        "runs_per_second": round(asked.runs / took_s, 2),
        "broker_mib": bed.broker.memory_mib(),
        "handed_in_again": sum(
            path.read_text().count("handed in again") for path in bed.folder.glob("shared/logs-*/*/*")
        ),
    }


def find_left(jobs: Path) -> list[int]:
    """The processes of runs that live still."""
    mark, found = f"{VARIABLE}={jobs}".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
    return found


if __name__ == "__main__":
    main()
