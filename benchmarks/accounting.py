"""What Slurm's accounting costs: `cluster up -n 4`, jobs, and memory, with it and without it, in turn.

Usage, as root, with LXD prepared: python -m benchmarks.accounting [--rounds 2] [--jobs 20]

Prints a table in Markdown. Makes and removes a cluster `gptcount` (nodes k000, k001, ..., bridges gpkrn0 and gpkrn1,
10.79.13.0/24 and 10.79.15.0/24) with its folders in /srv/gpuprov, and images with and without accounting.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import describe

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "gptcount"
SPEC = """\
version: gpuprov/v1
name: {name}
engine: lxd
nodes: {{count: 4, prefix: k}}
gpus: {{mode: simulated}}
network: {{bridge: gpkrn0, subnet: 10.79.13.0/24, private_bridge: gpkrn1, private_subnet: 10.79.15.0/24}}
share: true
accounting: {accounting}
"""
GPUPROV = str(Path(sys.executable).parent / "gpuprov")
# Seconds from sbatch to the first line of the job, of each of $1 jobs, one after the other
START = """\
cd /tmp && rm -f began && for _ in $(seq "$1"); do
    from=$(date +%s.%N)
    sbatch --quiet --output=/dev/null --gres=gpu:1 --wrap 'date +%s.%N >/tmp/.began; mv /tmp/.began /tmp/began' -w k000
    until [ -e began ]; do sleep 0.005; done
    echo "$from $(cat began)"
    rm began
    until [ -z "$(squeue -h)" ]; do sleep 0.05; done
done
"""
# Seconds that each of $1 jobs takes which wait together, and do nothing
COST = """\
cd /tmp && from=$(date +%s.%N)
sbatch --quiet --output=/dev/null --gres=gpu:1 --array="1-$1" --wrap true
until [ -z "$(squeue -h)" ]; do sleep 0.05; done
echo "$from $(date +%s.%N)"
"""
AS_WORK = ("exec", "k000", "--", "runuser", "-u", "work", "--", "sh", "-c")
COST_JOBS = 40
MEMORY = "ps -C mariadbd,slurmdbd -o rss= | awk '{sum += $1} END {print sum / 1024}'"
KINDS = ("off", "on")
TITLES = {
    "new": "`cluster up -n 4`, a new database, s",
    "again": "`cluster up -n 4`, a database that is there, s",
    "start": "`sbatch` to the start of the job, s",
    "cost": f"a job of {COST_JOBS} that wait together, s",
    "memory": "memory of MariaDB and slurmdbd, MiB",
}


def gpuprov(*argv: str) -> str:
    """What the command prints."""
    done = subprocess.run([GPUPROV, "-q", *argv], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}: {done.stderr}")
    return done.stdout


def seconds_of(act: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.monotonic()
    act()
    return time.monotonic() - began


def spans(said: str) -> list[float]:
    """Seconds from the first time of each line to the second."""
    times = [line.split() for line in said.splitlines()]
    return [float(end) - float(begin) for begin, end in times]


def run_round(specs: dict[str, Path], jobs: int, found: dict[tuple[str, str], list[float]]) -> None:
    """A cluster of each kind, twice: with a new database, and with the one that is there then."""
    for kind in KINDS:
        up = partial(gpuprov, "cluster", "up", "-f", str(specs[kind]), "--no-verify")
        found["new", kind].append(seconds_of(up))
        found["start", kind] += spans(gpuprov(*AS_WORK, START, "sh", str(jobs)))
        found["cost", kind] += [span / COST_JOBS for span in spans(gpuprov(*AS_WORK, COST, "sh", str(COST_JOBS)))]
        if kind == "on":
            found["memory", kind].append(float(gpuprov("exec", "k000", "--", "sh", "-c", MEMORY)))
        gpuprov("cluster", "down", NAME, "--yes")
        found["again", kind].append(seconds_of(up))
        gpuprov("cluster", "down", NAME, "--yes", "--purge")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=20)
    options = parser.parse_args()
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        specs = {kind: Path(folder) / f"{kind}.yaml" for kind in KINDS}
        for kind, path in specs.items():
            path.write_text(SPEC.format(name=NAME, accounting=kind))
            gpuprov("image", "build", "-f", str(path))
        for _ in range(options.rounds):
            run_round(specs, options.jobs, found)
    print(f"{describe()}\n\n| | without | with accounting |\n|---|---|---|")
    for key, title in TITLES.items():
        cells = [f"{statistics.median(found[key, kind]):.2f}" if found[key, kind] else "" for kind in KINDS]
        print(f"| {title} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
