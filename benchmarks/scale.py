"""How time and memory grow with the number of nodes, with LXD's own share measured beside it in the same run.

Usage, as root, with LXD prepared: python -m benchmarks.scale [--counts 1 4 16 32 64] [--rounds 1]

LXD's own share is the plainest pylxd script that ends in the same state: copies of the same image with the same
devices, addresses and files, on as many threads, all nodes `idle` in Slurm. Prints a table in Markdown;
docs/reliability.md holds one. Makes and removes what cluster_up.py makes.
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
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster_up import GPUPROV, MIB, NAME, Bench, available_bytes, describe_machine

BRIDGE, PRIVATE_BRIDGE = "gpbrn0", "gpbrn1"  # of the spec
WORKERS = "8"  # as many as gpuprov has
SETTLE_S = 2.0
COLUMNS = (
    *("Nodes", "`cluster up`", "LXD's own", "gpuprov's share"),
    *("its CPU a node", "its size", "memory a node", "LXD's own"),
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One command: seconds of the clock and of the processor, its largest size, and what its nodes take once idle."""

    seconds: float
    cpu_s: float
    peak_bytes: int
    nodes_bytes: int


def measure(bench: Bench, *argv: str) -> Run:
    """Run a command that makes nodes; its processor time and size are its own, without the daemon's."""
    before = available_bytes()
    started = time.monotonic()
    environment = {**os.environ, "XDG_DATA_HOME": str(bench.folder)}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=said, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(argv)}: exit status {process.returncode}\n{said.read().decode()}")
    time.sleep(SETTLE_S)
    return Run(
        seconds=seconds,
        cpu_s=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss * 1024,
        nodes_bytes=before - available_bytes(),
    )


def compare(bench: Bench, count: int, image: str) -> tuple[Run, Run]:
    """The same nodes by gpuprov and by the plain script."""
    ours = measure(bench, *bench.gpuprov_up(count))
    bench.keep_files()
    bench.run(*bench.gpuprov_down())
    plain = measure(bench, *bench.plain("up", count, f"copy:{image}", WORKERS))
    bench.run(*bench.plain("down", count))
    sys.stderr.write(f"{count} nodes: {ours.seconds:.2f} s, LXD's own {plain.seconds:.2f} s\n")
    return ours, plain


def clear(bench: Bench) -> None:
    """Remove what a plain script that failed has left: instances on its bridge, which nobody else has, and networks."""
    for found in json.loads(bench.run("lxc", "query", "/1.0/instances?recursion=1")):
        if found["devices"].get("eth0", {}).get("parent") == BRIDGE:
            bench.run("lxc", "delete", "--force", found["name"])
    for network in json.loads(bench.run("lxc", "query", "/1.0/networks?recursion=1")):
        if network["managed"] and network["name"] in (BRIDGE, PRIVATE_BRIDGE):
            bench.run("lxc", "network", "delete", network["name"])


def render(results: dict[int, list[tuple[Run, Run]]]) -> str:
    """The table."""
    rows = [
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    for count, pairs in results.items():
        ours = statistics.median(run.seconds for run, _ in pairs)
        plain = statistics.median(run.seconds for _, run in pairs)
        cpu = statistics.median(run.cpu_s for run, _ in pairs)
        peak = max(run.peak_bytes for run, _ in pairs)
        memory, own = (statistics.median(pair[side].nodes_bytes for pair in pairs) / count / MIB for side in (0, 1))
        share = 100 * (ours - plain) / ours
        rows.append(
            f"| {count} | {ours:.2f} s | {plain:.2f} s | {share:.1f} % "
            f"| {cpu / count:.3f} s | {peak / MIB:.0f} MiB | {memory:.0f} MiB | {own:.0f} MiB |"
        )
    return "\n".join(rows)


def main() -> None:
    """Run everything, and leave nothing."""
    parser = argparse.ArgumentParser(description="times clusters of growing size")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 4, 16, 32, 64])
    parser.add_argument("--rounds", type=int, default=1)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        bench.write_spec()
        try:
            bench.run(*bench.gpuprov_up(1))  # builds the image if need be
            image = json.loads(bench.run(GPUPROV, "--json", "cluster", "status", NAME))["nodes"][0]["image"]
            bench.keep_pool()
            bench.run(*bench.gpuprov_down())
            results = {count: [compare(bench, count, image) for _ in range(wanted.rounds)] for count in wanted.counts}
            sys.stdout.write(f"{describe_machine(bench)}\n\n{render(results)}\n")
        finally:
            bench.run(*bench.gpuprov_down())
            clear(bench)


if __name__ == "__main__":
    main()
