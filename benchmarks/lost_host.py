"""Times how soon a lost host is seen, and how soon its nodes take jobs again once it is back, with nobody there.

Usage, on a machine that has added two hosts (`gpuprov host add`); the commands take the second one's power and give it
back:
    python -m benchmarks.lost_host HOST HOST --off 'virsh destroy b' --on 'virsh start b' [--rounds 3]

Meanwhile `gpuprov verify --watch 10` runs, as docs/hosts.md recommends. Times count from when a command has returned.
Prints a table in Markdown; docs/benchmarks.md
holds one. Makes and removes a cluster `gptlost` (nodes b000 to b003, bridges gpbrn0 and gpbrn1, 10.79.3.0/24 and
10.79.5.0/24).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import describe
from benchmarks.two_hosts import GPUPROV, SPEC, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "gptlost"
WATCH_S, AFTER_S, LONGEST_S = 10, 10, 300


@contextmanager
def watching() -> Iterator[None]:
    """Have `verify --watch` run during the block."""
    watch = [GPUPROV, "verify", "--cluster", NAME, "--watch", str(WATCH_S)]
    with subprocess.Popen(watch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as one:
        try:
            yield
        finally:
            one.terminate()


def statuses() -> set[str]:
    """What `cluster status` says of the second host's nodes; its exit code tells an unreachable host."""
    argv = (GPUPROV, "--json", "cluster", "status", NAME)
    said = subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    return {node["status"] for node in json.loads(said)["nodes"] if node["name"] in ("b002", "b003")}


def states() -> set[str]:
    """What Slurm says of these nodes; an asterisk marks one that does not answer."""
    return set(run(GPUPROV, "exec", "b000", "--", "sinfo", "-h", "-N", "-n", "b002,b003", "-o", "%T").split())


def seconds_until(what: str, true: Callable[[], bool]) -> float:
    """Ask again and again until it is so."""
    started = time.monotonic()
    while not true():
        if time.monotonic() - started > LONGEST_S:
            raise SystemExit(f"{what}: not after {LONGEST_S} s")
        time.sleep(0.2)
    taken = time.monotonic() - started
    sys.stderr.write(f"{what}: {taken:.1f} s  (load {os.getloadavg()[0]:.1f})\n")
    return taken


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hosts", nargs=2)
    parser.add_argument("--off", required=True)
    parser.add_argument("--on", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    seconds: dict[str, list[float]] = defaultdict(list)

    def measure(what: str, true: Callable[[], bool]) -> None:
        seconds[what].append(seconds_until(what, true))

    named = ", ".join(f"{{name: {host}}}" for host in wanted.hosts)
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "spec.yaml"
        spec.write_text(SPEC.format(name=NAME, hosts=named, count=4) + f"unreachable: {{after_s: {AFTER_S}}}\n")
        try:
            run(GPUPROV, "cluster", "up", "-f", str(spec), "--no-verify")
            with watching():
                for _ in range(wanted.rounds):
                    run("sh", "-c", wanted.off)
                    lost = time.monotonic()
                    measure("lost: `cluster status` says so", lambda: statuses() == {"unreachable"})
                    until = f"lost: Slurm gives its nodes no jobs (after_s: {AFTER_S})"
                    measure(until, lambda: {state.rstrip("*") for state in states()} == {"down"})
                    seconds[until][-1] = time.monotonic() - lost
                    run("sh", "-c", wanted.on)
                    measure("back: its nodes are idle", lambda: states() == {"idle"})
        finally:
            run(GPUPROV, "cluster", "down", NAME, "--yes", "--force", "--purge")
    sys.stdout.write(f"{describe('two hosts')}\n\n| What | Median | Range |\n|---|---|---|\n")
    for what, taken in seconds.items():
        sys.stdout.write(f"| {what} | {statistics.median(taken):.0f} s | {min(taken):.0f} to {max(taken):.0f} s |\n")


if __name__ == "__main__":
    main()
