"""Times `gpuprov cluster up` against the plainest pylxd script that does the same, in turn, on this machine.

Usage, as root, with LXD prepared: python -m benchmarks.cluster_up [--rounds 5] [--large-rounds 3] [--engine lxd|incus]

Prints a table in Markdown; docs/benchmarks.md holds one. Makes and removes a cluster `gptbench` (nodes b000, b001, ...,
bridges gpbrn0 and gpbrn1, 10.79.3.0/24 and 10.79.5.0/24) and an image of that name.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "gptbench"
SPEC = """\
version: gpuprov/v1
name: {name}
engine: {engine}
nodes: {{count: 4, prefix: b}}
gpus: {{mode: simulated}}
network: {{bridge: gpbrn0, subnet: 10.79.3.0/24, private_bridge: gpbrn1, private_subnet: 10.79.5.0/24}}
"""
CLIENTS = {"lxd": "lxc", "incus": "incus"}
TITLES = {"lxd": "LXD", "incus": "Incus"}
FILES = (
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/environment",
    "/etc/gpuprov/environment",
    "/etc/profile.d/gpuprov.sh",
    "/etc/ssh/sshd_config.d/gpuprov-environment.conf",
    "/root/.ssh/authorized_keys",
    "/etc/slurm/slurm.conf",
    "/etc/slurm/gres.conf",
    "/etc/slurm/epilog",
    "/etc/slurm/task-prolog",
    "/etc/slurm/controller",
    "/etc/munge/munge.key",
)
GPUPROV = str(Path(sys.executable).parent / "gpuprov")
PLAIN = (sys.executable, str(Path(__file__).parent / "plain_pylxd.py"))
SMALL, LARGE, MOST = 4, 16, 32
QUICK_RUNS = 10
EVERYDAY = {
    "list": (("list",), ()),
    "cluster status": (("cluster", "status"), (NAME,)),
    "show": (("show",), ("b001",)),
    "exec -- true": (("exec",), ("b001", "--", "true")),
}
MIB = 1024**2


@dataclass(frozen=True)
class Bench:
    """A folder for what the plain script needs, an engine, and all times in seconds, by what was timed."""

    folder: Path
    engine: str = "lxd"
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def client(self) -> str:
        """The engine's own command."""
        return CLIENTS[self.engine]

    def run(self, *argv: str) -> str:
        """Run a command; its output is the evidence when it fails."""
        environment = {**os.environ, "XDG_DATA_HOME": str(self.folder)}
        finished = subprocess.run(argv, check=False, capture_output=True, text=True, env=environment)
        if finished.returncode:
            raise SystemExit(f"{' '.join(argv)}\n{finished.stdout}{finished.stderr}")
        return finished.stdout

    def time(self, what: str, *argv: str) -> float:
        """Run and time a command."""
        started = time.monotonic()
        self.run(*argv)
        taken = time.monotonic() - started
        self.seconds[what].append(taken)
        sys.stderr.write(f"{what}: {taken:.2f} s  (load {os.getloadavg()[0]:.1f})\n")
        return taken

    def gpuprov_up(self, count: int) -> tuple[str, ...]:
        """The command that brings the cluster up."""
        return (GPUPROV, "cluster", "up", "-f", str(self.folder / "spec.yaml"), "-n", str(count), "--no-verify")

    def gpuprov_down(self) -> tuple[str, ...]:
        """The command that takes it down."""
        return (GPUPROV, "cluster", "down", NAME, "--yes", "--engine", self.engine)

    def plain(self, verb: str, count: int, image: str = NAME, *more: str) -> tuple[str, ...]:
        """The command that does it plainly."""
        return (*PLAIN, verb, str(count), image, str(self.folder), f"/var/lib/{self.engine}/unix.socket", *more)

    def write_spec(self) -> None:
        """Write the spec that `gpuprov_up` takes."""
        (self.folder / "spec.yaml").write_text(SPEC.format(name=NAME, engine=self.engine))

    def keep_pool(self) -> str:
        """Save the name of the pool of the cluster that is up, for the plain script to take the same."""
        pool: str = json.loads(self.run(self.client, "query", "/1.0/instances/b000"))["devices"]["root"]["pool"]
        (self.folder / "pool.json").write_text(json.dumps(pool))
        return pool

    def keep_files(self) -> None:
        """Save the files of the cluster that is up, for the plain script to push the same."""
        files = []
        for path in FILES:
            mode, uid, gid = self.run(self.client, "exec", "b000", "--", "stat", "-c", "%a %u %g", path).split()
            content = self.folder / "content"
            self.run(self.client, "file", "pull", f"b000{path}", str(content))
            text = content.read_bytes().decode("latin-1")
            files.append({"path": path, "content": text, "mode": f"0{mode}", "uid": int(uid), "gid": int(gid)})
        (self.folder / "files.json").write_text(json.dumps(files))


def compare(bench: Bench, count: int, rounds: int) -> None:
    """Bring `count` nodes up with gpuprov and with the plain script, in turn."""
    for _ in range(rounds):
        bench.time(f"gpuprov up {count}", *bench.gpuprov_up(count))
        if count == SMALL:
            bench.time("second up", *bench.gpuprov_up(count))
            for verb, (words, about) in EVERYDAY.items():
                bench.time(f"gpuprov {verb}", GPUPROV, *words, *about)
                bench.time(f"gpuprov {verb}, one engine asked", GPUPROV, *words, "--engine", bench.engine, *about)
        bench.keep_files()
        bench.time(f"gpuprov down {count}", *bench.gpuprov_down())
        try:
            bench.time(f"plain up {count}", *bench.plain("up", count))
        finally:  # also if it failed half-way
            bench.time(f"plain down {count}", *bench.plain("down", count))


@contextmanager
def least_memory(seen: list[int]) -> Iterator[None]:
    """Append what memory was available before, and the least that was available during the block, in bytes."""
    ended = threading.Event()
    seen.append(available_bytes())
    least = [seen[0]]

    def watch() -> None:
        while not ended.wait(0.2):
            least[0] = min(least[0], available_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        seen.append(least[0])


def available_bytes() -> int:
    """Memory that the kernel could give out."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def many(bench: Bench, verify: Callable[[], object]) -> tuple[int, int]:
    """Bring the most nodes up and verify them; returns the bytes of memory they took at most, and once idle."""
    seen: list[int] = []
    with least_memory(seen):
        bench.time(f"gpuprov up {MOST}", *bench.gpuprov_up(MOST))
        settled = available_bytes()
        verify()
    bench.time(f"gpuprov down {MOST}", *bench.gpuprov_down())
    return seen[0] - seen[1], seen[0] - settled


def publish(bench: Bench) -> None:
    """Make an ordinary image of the engine of gpuprov's node image, and have it unpacked before anything is timed."""
    nodes = json.loads(bench.run(GPUPROV, "--json", "cluster", "status", NAME))["nodes"]
    bench.run(bench.client, "publish", nodes[0]["image"], "--alias", NAME, "--compression", "none")
    bench.run(bench.client, "init", NAME, "gptbench-warm", "--storage", bench.keep_pool())
    bench.run(bench.client, "delete", "gptbench-warm")


def describe_machine(bench: Bench) -> str:
    """One line about this machine and its engine."""
    server = json.loads(bench.run(bench.client, "query", "/1.0"))["environment"]
    pools = json.loads(bench.run(bench.client, "query", "/1.0/storage-pools?recursion=1"))
    drivers = "/".join(sorted({pool["driver"] for pool in pools}))
    return describe(f"{TITLES[bench.engine]} {server['server_version']} on {drivers}")


def render(bench: Bench, machine: str, memory: tuple[int, int]) -> str:
    """The table."""
    rows = ["| What | Median | Range | Runs | Compared with the plain script |", "|---|---|---|---|---|"]
    for what, taken in bench.seconds.items():
        against = ""
        if what.startswith("gpuprov up") and what.replace("gpuprov", "plain") in bench.seconds:
            plain = statistics.median(bench.seconds[what.replace("gpuprov", "plain")])
            against = f"{statistics.median(taken) / plain:.2f} of its time"
        median = f"{statistics.median(taken):.2f} s"
        rows.append(f"| {what} | {median} | {min(taken):.2f} to {max(taken):.2f} s | {len(taken)} | {against} |")
    peak, idle = (round(value / MIB) for value in memory)
    return "\n".join([machine, "", *rows, "", f"Memory that {MOST} nodes take: {idle} MiB idle, {peak} MiB at most."])


def main() -> None:
    """Run everything, and leave nothing."""
    parser = argparse.ArgumentParser(description="times `gpuprov cluster up` against a plain pylxd script")
    parser.add_argument("--rounds", type=int, default=5, help=f"rounds with {SMALL} nodes")
    parser.add_argument("--large-rounds", type=int, default=3, help=f"rounds with {LARGE} nodes")
    parser.add_argument("--engine", choices=CLIENTS, default="lxd")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), wanted.engine)
        bench.write_spec()
        try:
            bench.run(*bench.gpuprov_up(1))  # builds the image if need be
            publish(bench)
            bench.run(*bench.gpuprov_down())
            for _ in range(QUICK_RUNS):
                bench.time("gpuprov --help", GPUPROV, "--help")
            compare(bench, SMALL, wanted.rounds)
            compare(bench, LARGE, wanted.large_rounds)
            memory = many(bench, lambda: bench.time(f"verify {MOST}", GPUPROV, "verify", "--cluster", NAME))
            sys.stdout.write(render(bench, describe_machine(bench), memory) + "\n")
        finally:
            bench.run(*bench.gpuprov_down())
            bench.run("sh", "-c", f"{bench.client} image delete {NAME} 2>/dev/null || true")


if __name__ == "__main__":
    main()
