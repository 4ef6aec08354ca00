"""Many small runs on workers with a real broker, while all of these are killed at random: each run ends once.

Usage: python -m benchmarks.work_faults --rabbitmq /usr/lib/rabbitmq/bin/rabbitmq-server [--runs 10000] [--kills 40]
       python -m benchmarks.work_faults --redis /usr/bin/redis-server --visible-after 5 [--runs 50] [--kills 5]

Debian's rabbitmq-server and erl must be installed, or redis-server and the package redis for Python, and Celery. With
`--visible-after`, Redis delivers after so many seconds what nobody has acknowledged, and one run takes six times as
long. Everything is in a temporary folder and on 127.0.0.1.
Without kills, the rate is that of workers that nobody disturbs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
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
from benchmarks.redis import Redis
from gpuwork.jobs.leftovers import VARIABLE

HOWS: Final = ("worker", "worker", "crew", "node", "broker")
_CREWS: Final = 2
_RECEIVED: Final = re.compile(r"Task gpuwork\.run\[([0-9a-f-]+)\] received")
_LONGEST_S: Final = 4 * 3600
_LOOK_S: Final = 0.5
_LOOK_OFTEN: Final = {"unacked_restore_interval": 1, "unacked_restore_throttle": 1}  # kombu's own: every 100 s


class Bed:
    """Two crews, which stand for nodes, and a broker."""

    def __init__(self, broker: RabbitMq | Redis, folder: Path, workers: int, *, visible_after: int | None) -> None:
        self.folder, self.jobs = folder, folder / "shared/jobs"
        (folder / "shared").mkdir()
        self.broker = broker
        (folder / "site").mkdir()
        if visible_after is not None:
            options = {"visibility_timeout": visible_after, **_LOOK_OFTEN}
            changed = f"from gpuwork import broker_file\nbroker_file.transport_options = lambda _url: {options}\n"
            (folder / "site/sitecustomize.py").write_text(changed)
        self._env = {**os.environ, "PYTHONPATH": f"{folder / 'site'}:{Path.cwd()}"}
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
            return subprocess.Popen(argv, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def options(self) -> list[str]:
        """Where the jobs and the broker are."""
        return ["--folder", str(self.jobs), "--broker", str(self.url)]

    def ask(self, *arguments: str, stdin: str = "") -> dict[str, object]:
        """What `gpuwork.jobs` answers."""
        argv = [sys.executable, "-m", "gpuwork.jobs", *self.options(), *arguments]
        done = subprocess.run(argv, env=self._env, input=stdin, capture_output=True, text=True, check=False)
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
        while not (workers := children(process.pid)):  # they may just be starting
            time.sleep(_LOOK_S)
        if how == "worker":
            victims = [random.choice(workers)]
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

    def worker_logs(self) -> list[str]:
        """What the workers said."""
        return [path.read_text() for path in self.folder.glob("shared/logs-*/*/*")]

    def count_deliveries(self) -> Counter[str]:
        """How often each message was received."""
        return Counter(found for log in self.worker_logs() for found in _RECEIVED.findall(log))

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
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--rabbitmq", type=Path, metavar="PROGRAM")
    which.add_argument("--redis", type=Path, metavar="PROGRAM")
    parser.add_argument("--visible-after", type=int, metavar="SECONDS")
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
        (folder / "broker").mkdir()
        make: type[RabbitMq | Redis] = RabbitMq if asked.rabbitmq else Redis
        broker = make(asked.rabbitmq or asked.redis, folder / "broker")
        bed = Bed(broker, folder, asked.workers, visible_after=asked.visible_after)
        held.callback(bed.finish)
        told = measure(bed, asked)
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
    long = [] if asked.visible_after is None else [("done", 1)]
    sys.exit(told["states"] != {"done": asked.runs} or bool(told["left"]) or told["long"] != long)


def measure(bed: Bed, asked: argparse.Namespace) -> dict[str, object]:
    """Submit, kill, wait, and count."""
    broker_s = bed.broker.start()
    bed.crews = [bed.start_crew(crew) for crew in range(_CREWS)]
    while len(bed.ask("workers", "--expect", str(asked.workers)).get("workers", [])) < asked.workers:  # type: ignore[arg-type]
        time.sleep(_LOOK_S)
    long = run_long(bed, 6 * asked.visible_after) if asked.visible_after else []
    first = 2 if long else 1
    order = {"schema": "gpuprov.job-order/v1", "version": 1, "gpus": 0, "count": asked.runs, "retries": 3}
    began = time.monotonic()
    bed.ask("submit", stdin=json.dumps({**order, "command": ["sh", "-c", "echo ran"]}))
    submit_s = time.monotonic() - began
    kills, done_at = Counter[str](), 0
    waiting = {path: bed.jobs / f"{first}/runs/{path}/done.json" for path in range(asked.runs)}
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
    jobs = bed.ask("show", str(first))["jobs"]
    assert isinstance(jobs, list)  # noqa: S101
    logs = [(bed.jobs / f"{first}/runs/{number}/log.txt").read_text().count("ran\n") for number in range(asked.runs)]
    return {
        "runs": asked.runs,
        "long": long,
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
        "handed_in_again": sum(log.count("handed in again") for log in bed.worker_logs()),
        "delivered_again": sum(count - 1 for count in bed.count_deliveries().values()),
    }


def run_long(bed: Bed, seconds: int) -> list[tuple[str, int]]:
    """One run that takes so long, with nobody killed: its state, and how often it began; was it delivered again?"""
    order = {"schema": "gpuprov.job-order/v1", "version": 1, "gpus": 0}
    bed.ask("submit", stdin=json.dumps({**order, "command": ["sh", "-c", f"echo begun; sleep {seconds}"]}))
    jobs = bed.ask("wait", "1", "--limit", str(2 * seconds + 60))["jobs"]
    assert isinstance(jobs, list)  # noqa: S101
    if not any(count > 1 for count in bed.count_deliveries().values()):
        raise SystemExit("nothing was delivered again while the long run went on: this shows nothing")
    return [(job["state"], (bed.jobs / "1/runs/0/log.txt").read_text().count("begun")) for job in jobs]


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
