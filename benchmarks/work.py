"""Times work handed to a cluster, on Slurm and on workers in turn: how soon it is up, what a job costs, and how many.

Usage, as root, with LXD prepared: python -m benchmarks.work [--rounds 3] [--engine ENGINE]

The baselines are the plain tools in the same nodes: `sbatch` of a script that writes a file at its end, for which a
shell looks every 50 ms (`sbatch --wait` looks every few seconds), and a task of a Celery app in /shared/app that starts
the same command. Prints a table in Markdown; docs/benchmarks.md holds one. Makes and removes a cluster `gptwork`
(nodes w000, w001, ..., bridges gpwrk0 and gpwrk1, 10.80.3.0/24 and 10.80.5.0/24) and its shared folder.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.machine import describe
from gpuprov.shapes.choices import ENGINES

NAME = "gptwork"
SPEC = """\
version: gpuprov/v1
name: {name}
engine: {engine}
nodes: {{count: 4, prefix: w, role: {role}}}
gpus: {{mode: simulated}}
network: {{bridge: gpwrk0, subnet: 10.80.3.0/24, private_bridge: gpwrk1, private_subnet: 10.80.5.0/24}}
share: true
"""
GPUPROV = str(Path(sys.executable).parent / "gpuprov")
ROLES = ("slurm", "worker")
MANY = 1000
SECOND = "sleep 1"
APP = """\
import subprocess
from celery import Celery
app = Celery("bench")
app.config_from_object("gpuwork.celeryconfig")
@app.task(name="bench.run")
def run(command):
    return subprocess.run(["sh", "-c", command]).returncode
"""
PLAIN_SLURM = (
    f"rm -f /shared/ended; sbatch --quiet --gres=gpu:1 --output=/dev/null --wrap='{SECOND}; touch /shared/ended' &&"
    " while ! [ -e /shared/ended ]; do sleep 0.05; done"
)
CLIENT = "import sys, app; sys.exit(app.run.delay(sys.argv[1]).get(timeout=60))"
JOB = (
    "import json, subprocess, sys\n"
    "argv = ['python3', '-m', 'gpuwork.jobs']\n"
    "order = json.dumps({'schema': 'gpuprov.job-order/v1', 'version': 1, 'command': ['sh', '-c', sys.argv[1]]})\n"
    "job = json.loads(subprocess.run([*argv, 'submit'], input=order, text=True, capture_output=True).stdout)['id']\n"
    "sys.exit(subprocess.run([*argv, 'wait', job, '--limit', '60'], capture_output=True).returncode)\n"
)


class Bench:
    """An engine, and all times in seconds by what was timed."""

    def __init__(self, folder: Path, engine: str) -> None:
        """Keep them; nothing is started."""
        self.folder, self.engine = folder, engine
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.memory_mib: list[int] = []
        self.moments = random.Random(1)

    def run(self, *argv: str) -> str:
        """Run a command; its output is the evidence when it fails."""
        environment = {**os.environ, "XDG_DATA_HOME": str(self.folder)}
        finished = subprocess.run(argv, check=False, capture_output=True, text=True, env=environment, cwd=self.folder)
        if finished.returncode:
            raise SystemExit(f"{' '.join(argv)}\n{finished.stdout}{finished.stderr}")
        return finished.stdout

    def time(self, what: str, *argv: str) -> str:
        """Run and time a command; returns what it printed."""
        started = time.monotonic()
        said = self.run(*argv)
        self.seconds[what].append(time.monotonic() - started)
        sys.stderr.write(f"{what}: {self.seconds[what][-1]:.2f} s  (load {os.getloadavg()[0]:.1f})\n")
        return said.strip()

    def up(self, role: str, what: str | None) -> None:
        """Bring a cluster up, timed if `what` is a word for it."""
        (self.folder / "spec.yaml").write_text(SPEC.format(name=NAME, engine=self.engine, role=role))
        argv = (GPUPROV, "cluster", "up", "-f", str(self.folder / "spec.yaml"), "--no-verify")
        _ = self.time(what, *argv) if what else self.run(*argv)

    def down(self) -> None:
        """Take it down, with its folder."""
        self.run(GPUPROV, "cluster", "down", NAME, "--engine", self.engine, "--force", "--purge", "--yes")

    def in_node(self, what: str, *argv: str) -> None:
        """Time a command of the account of jobs, as its own shell in the first node does: without the engine's part."""
        timed = "import subprocess, sys, time; s = time.monotonic(); c = subprocess.run(sys.argv[1:]).returncode\n"
        timed += "print(time.monotonic() - s, file=sys.stderr); sys.exit(c)"
        account = ("runuser", "-u", "work", "--", "env", "-C", "/shared", "HOME=/home/work")
        finished = subprocess.run(
            [GPUPROV, "exec", "w000", "--", *account, "python3", "-c", timed, *argv],
            check=False,
            capture_output=True,
            text=True,
        )
        if finished.returncode:
            raise SystemExit(f"{argv}\n{finished.stdout}{finished.stderr}")
        self.seconds[what].append(float(finished.stderr.split()[-1]))
        sys.stderr.write(f"{what}: {self.seconds[what][-1]:.2f} s  (load {os.getloadavg()[0]:.1f})\n")


def measure_memory(bench: Bench) -> None:
    """The resident memory of the broker and of its page, which starts 5 s after it."""
    listed = bench.run(GPUPROV, "exec", "w000", "--", "ps", "axo", "rss=,args=")
    rows = [line.split(maxsplit=1) for line in listed.splitlines()]
    found = {mark: [int(rss) for rss, argv in rows if mark in argv] for mark in ("beam.smp", " flower ")}
    if not all(found.values()):
        raise SystemExit(f"w000 does not run the broker and its page: {found}")
    bench.memory_mib.append(sum(map(max, found.values())) // 1024)


def compare_jobs(bench: Bench, role: str, rounds: int) -> None:
    """A job of a second by gpuwork and by the plain tool, in turn, each at a moment of its own.

    Slurm starts batch jobs once a second. Without a pause, all times would have the phase that the job before left.
    """
    for _ in range(2 * rounds):
        time.sleep(bench.moments.random())
        bench.in_node(f"{role}: a job of 1 s", "python3", "-c", JOB, SECOND)
        time.sleep(bench.moments.random())
        if role == "slurm":
            bench.in_node("plain sbatch", "sh", "-c", PLAIN_SLURM)
        else:
            client = "import os, sys; os.chdir('/shared/app'); sys.path.insert(0, '/shared/app');" + CLIENT
            bench.in_node("plain task of Celery", "python3", "-c", client, SECOND)


def submit_many(bench: Bench, role: str) -> None:
    """A thousand runs, and the list of jobs while they wait."""
    order = ("submit", "--cluster", NAME, "--no-project", "--count", str(MANY), "--at-most", "2", "--", "true")
    job = bench.time(f"{role}: submit {MANY} runs", GPUPROV, *order)
    bench.time(f"{role}: jobs", GPUPROV, "jobs", "--cluster", NAME)
    bench.run(GPUPROV, "jobs", "cancel", "--cluster", NAME, job)


def render(bench: Bench, machine: str) -> str:
    """The table."""
    rows = ["| What | Median | Range | Runs |", "|---|---|---|---|"]
    for what, taken in bench.seconds.items():
        span = f"{min(taken):.2f} to {max(taken):.2f} s" if len(taken) > 1 else ""
        rows.append(f"| {what} | {statistics.median(taken):.2f} s | {span} | {len(taken)} |")
    middle = {what: statistics.median(taken) for what, taken in bench.seconds.items()}
    more = middle["slurm: a job of 1 s"] - middle["plain sbatch"]
    times = middle["worker: a job of 1 s"] / middle["plain task of Celery"]
    later = middle["worker: up 4"] - middle["slurm: up 4"]
    told = (
        f"- A job on Slurm takes {more:.2f} s more than `sbatch`.",
        f"- A job on workers takes {times:.2f} times as long as a task of Celery.",
        f"- Four nodes with workers are up {later:+.2f} s after four with Slurm.",
        f"- The broker and its page have {max(bench.memory_mib)} MiB of resident memory.",
    )
    return "\n".join([machine, "", *rows, "", *told])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=ENGINES, default="lxd")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), asked.engine)
        try:
            for role in ROLES:  # the images are built, and nothing is timed
                bench.up(role, None)
                bench.down()
            for _ in range(asked.rounds):
                for role in ROLES:
                    bench.up(role, f"{role}: up 4")
                    app = Path(f"/srv/gpuprov/{NAME}/app")
                    app.mkdir()
                    (app / "app.py").write_text(APP)
                    time.sleep(5)  # workers look every second, and begin anew
                    compare_jobs(bench, role, asked.rounds)
                    submit_many(bench, role)
                    if role == "worker":
                        measure_memory(bench)
                    bench.down()
        finally:
            bench.down()
        sys.stdout.write(render(bench, describe(asked.engine)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
