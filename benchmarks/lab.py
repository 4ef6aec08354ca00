"""Times `gpuprov play lab.yml` on two hosts that it reaches by ssh: the first run, and the second.

Usage, as root, with LXD prepared: python -m benchmarks.lab [--rounds 3]

The hosts are nodes of gpuprov from a prepared image, which has the packages of Slurm and CUDA, and stand in for
machines: a key for root, and nothing else of ours in them. Prints a table in Markdown; docs/benchmarks.md holds one.
Makes and removes a cluster `gptblab` (10.79.7.0/24 and 10.79.9.0/24).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.cluster_up import GPUPROV, Bench, describe_machine

NAME = "gptblab"
SPEC = f"""\
version: gpuprov/v1
name: {NAME}
nodes: {{count: 1, prefix: gptbl}}
gpus: {{mode: simulated}}
network: {{bridge: gptbl0, subnet: 10.79.7.0/24, private_bridge: gptbl1, private_subnet: 10.79.9.0/24}}
"""
HOSTS = ("gptbl-a", "gptbl-b")
FIRST, SECOND = "lab.yml, first run", "lab.yml, second run"
LAB = Path(__file__).parent.parent / "lab.yml"


def prepare(bench: Bench) -> str:
    """Networks of their own; returns the image that the hosts are made from."""
    (bench.folder / "spec.yaml").write_text(SPEC)
    bench.run(*bench.gpuprov_up(1))
    (node,) = status(bench)
    bench.run(GPUPROV, "rm", node["name"])
    return str(node["image"])


def status(bench: Bench) -> list[dict[str, Any]]:
    """The nodes of the cluster."""
    nodes: list[dict[str, Any]] = json.loads(bench.run(GPUPROV, "--json", "cluster", "status", NAME))["nodes"]
    return nodes


def make_hosts(bench: Bench, image: str) -> None:
    """Two of them, privileged as a machine's root is, and the inventory that names them."""
    options = ("--cluster", NAME, "--gpu-mode", "simulated", "--role", "plain", "--image", image, "--privileged")
    for host in HOSTS:
        bench.run(GPUPROV, "create-node", host, *options)
    (bench.folder / "known_hosts").unlink(missing_ok=True)
    addresses = {node["name"]: {"ansible_host": node["address"]} for node in status(bench)}
    trust = f"-o UserKnownHostsFile={bench.folder}/known_hosts -o StrictHostKeyChecking=accept-new"
    variables = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(bench.folder / f"gpuprov/{NAME}/id_ed25519"),
        "ansible_ssh_common_args": trust,
        "ansible_python_interpreter": "/usr/bin/python3",
        "lab_gpu_mode": "simulated",
        "lab_reports": str(bench.folder / "reports"),
        "nfs_type": "sshfs",
        "nfs_server": HOSTS[0],
        "slurm_controller": HOSTS[0],
    }
    lab = {"children": {"gpu_hosts": {"hosts": addresses}, "file_server": {"hosts": {HOSTS[0]: None}}}}
    (bench.folder / "lab.yml").write_text(json.dumps({"all": {"children": {"lab": lab}, "vars": variables}}))


def render(bench: Bench) -> str:
    """The table."""
    rows = ["| What | Median | Range | Runs |", "|---|---|---|---|"]
    for what, taken in bench.seconds.items():
        spread = f"{min(taken):.1f} to {max(taken):.1f} s"
        rows.append(f"| {what} | {statistics.median(taken):.1f} s | {spread} | {len(taken)} |")
    ratios = [second / first for first, second in zip(bench.seconds[FIRST], bench.seconds[SECOND], strict=True)]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    rows.append(f"| second relative to first | {statistics.median(ratios):.2f} | {spread} | {len(ratios)} |")
    return "\n".join(rows)


def main() -> None:
    """Run everything, and leave nothing."""
    parser = argparse.ArgumentParser(description="times lab.yml")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    play = (GPUPROV, "--json", "play", str(LAB), "-i")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        try:
            image = prepare(bench)
            for _ in range(rounds):
                make_hosts(bench, image)
                bench.time(FIRST, *play, str(bench.folder / "lab.yml"))
                bench.time(SECOND, *play, str(bench.folder / "lab.yml"))
                for host in HOSTS:
                    bench.run(GPUPROV, "rm", host)
            sys.stdout.write(f"{describe_machine(bench)}\n\n{render(bench)}\n")
        finally:
            bench.run(GPUPROV, "cluster", "down", NAME, "--yes")


if __name__ == "__main__":
    main()
