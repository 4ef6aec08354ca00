"""Times Ansible's ping of a cluster's nodes through gpuprov's connection and over ssh, in turn; and the inventory.

Usage, where a cluster is up (gpuprov cluster up --name lab -n 32), with gpuprov's Python:
python -m benchmarks.ansible_ping [--cluster lab] [--rounds 3] [--forks 5 32]

Prints a table in Markdown; docs/benchmarks.md holds one. "ssh" begins without a connection, as a play after a pause
does, and "ssh again" has those that Ansible kept from the run before. Times are of the whole command; one round that
is not counted comes first, so that every module's file is written and every node's host key known. Changes nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = Path(sys.executable).parent
INVENTORY = ROOT / "inventories" / "gpuprov.yml"
OURS, SSH, AGAIN = "gpuprov's connection", "ssh", "ssh again"


def run(*argv: str, **variables: str) -> tuple[float, str]:
    """Run one of the environment's programs in the top folder; seconds and standard output."""
    started = time.monotonic()
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", **variables}
    done = subprocess.run(
        [str(TOOLS / argv[0]), *argv[1:]], cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}\n{done.stdout}{done.stderr}")
    return time.monotonic() - started, done.stdout


def ping(cluster: str, forks: int, *options: str, kept: str = "") -> tuple[float, int]:
    """Ping every node of a cluster; seconds, and how many answered."""
    argv = ("ansible", f"cluster_{cluster}", "-i", str(INVENTORY), "-m", "ansible.builtin.ping", f"--forks={forks}")
    seconds, said = run(*argv, *options, **({"ANSIBLE_SSH_CONTROL_PATH_DIR": kept} if kept else {}))
    return seconds, said.count('"ping": "pong"')


def measure(cluster: str, forks: int, rounds: int) -> tuple[int, dict[str, list[float]]]:
    """How many nodes there are, and what each way took in each round but the first."""
    taken = defaultdict[str, list[float]](list)
    nodes = 0
    for number in range(rounds + 1):
        with tempfile.TemporaryDirectory() as kept:
            seconds = {OURS: ping(cluster, forks)}
            for way in (SSH, AGAIN):
                seconds[way] = ping(cluster, forks, "-e", "ansible_connection=ssh", kept=kept)
        (nodes,) = {answered for _, answered in seconds.values()}
        for way, (spent, _) in seconds.items():
            if number:
                taken[way].append(spent)
                sys.stderr.write(f"{forks} forks, {way}: {spent:.2f} s  (load {os.getloadavg()[0]:.1f})\n")
    return nodes, taken


def inventory(rounds: int) -> tuple[int, dict[str, list[float]]]:
    """How many nodes the inventory has, and what the script form and Ansible with the plugin take."""
    ways = {
        "gpuprov inventory --list": ("gpuprov", "inventory", "--list"),
        "ansible-inventory --list": ("ansible-inventory", "-i", str(INVENTORY), "--list"),
    }
    nodes = run(*ways["gpuprov inventory --list"])[1].count('"gpuprov_address"')
    return nodes, {name: [run(*argv)[0] for _ in range(rounds)] for name, argv in ways.items()}


def row(what: str, nodes: int, seconds: list[float], against: float | None = None) -> str:
    """One line of the table."""
    median = statistics.median(seconds)
    spread = f"{min(seconds):.2f} to {max(seconds):.2f} s"
    times = f"{median / against:.2f} times as long" if against else ""
    return f"| {what} | {nodes} | {median:.2f} s | {spread} | {len(seconds)} | {times} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", default="lab")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--forks", type=int, nargs="+", default=[5, 32])
    wanted = parser.parse_args()
    lines = ["| What | Nodes | Median | Range | Runs | Compared with gpuprov's |", "|---|---|---|---|---|---|"]
    count, listed = inventory(wanted.rounds)
    lines += [row(what, count, seconds) for what, seconds in listed.items()]
    for forks in wanted.forks:
        nodes, taken = measure(wanted.cluster, forks, wanted.rounds)
        ours = statistics.median(taken[OURS])
        lines.append(row(f"ping, {forks} forks, {OURS}", nodes, taken[OURS]))
        lines += [row(f"ping, {forks} forks, {way}", nodes, taken[way], ours) for way in (SSH, AGAIN)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
