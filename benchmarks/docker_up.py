"""Times `gpuprov cluster up --engine docker` against docker-compose with the same containers, in turn, on this machine.

Usage, as root, with Docker prepared and docker-compose (Debian's) or the plugin `docker compose` installed:
    python -m benchmarks.docker_up [--rounds 5] [--plain 64]

Both make four containers of the same image on the same two networks, with the same devices, addresses and files, and
both are through when all four are `idle` in Slurm; for compose the time that Slurm itself takes is measured beside,
from the end of `up` until then. Prints a table in Markdown; docs/benchmarks.md holds one. Makes and removes a cluster
`gptdbench` (nodes k000, k001, ..., bridges gptdb0 and gptdb1, 10.79.7.0/24 and 10.79.9.0/24), and a compose project
with the same names.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster_up import FILES, GPUPROV, SMALL, Bench
from benchmarks.machine import describe

NAME = "gptdbench"
SPEC = f"""\
version: gpuprov/v1
name: {NAME}
engine: docker
nodes: {{count: {SMALL}, prefix: k, role: ROLE}}
gpus: {{mode: simulated}}
network: {{bridge: gptdb0, subnet: 10.79.7.0/24, private_bridge: gptdb1, private_subnet: 10.79.9.0/24}}
"""
NODES = [f"k{number:03}" for number in range(SMALL)]
INIT = "/usr/local/sbin/gpuprov-init"
MOUNTED = [path for path in FILES if path not in ("/etc/hosts", "/etc/resolv.conf")]  # Docker mounts those itself
SLURM_BUDGET_S = 60.0


def find_compose() -> tuple[str, ...]:
    """The command line of compose: the plugin if there is one, else Debian's docker-compose."""
    plugin = subprocess.run(["docker", "compose", "version"], check=False, capture_output=True)  # noqa: S607
    if plugin.returncode == 0:
        return ("docker", "compose")
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    raise SystemExit("neither `docker compose` nor docker-compose is installed: apt-get install docker-compose")


def write_project(bench: Bench) -> Path:
    """A compose file for the containers of the cluster that is up, and the files that they mount."""
    services = {name: describe_service(bench, name) for name in NODES}
    networks = {name: describe_network(bench, name) for name in ("gptdb0", "gptdb1")}
    path = bench.folder / "docker-compose.yml"
    path.write_text(json.dumps({"version": "2.4", "services": services, "networks": networks}))  # JSON is YAML
    return path


def describe_service(bench: Bench, name: str) -> dict[str, Any]:
    """One container as gpuprov made it, in compose's words."""
    made = json.loads(bench.run("docker", "inspect", name))[0]
    config, host = made["Config"], made["HostConfig"]
    hosts = bench.run("docker", "exec", name, "cat", "/etc/hosts").splitlines()
    pairs = [line.split() for line in hosts if line.startswith("10.79.7.")]
    return {
        "image": config["Image"],
        "container_name": name,
        "hostname": name,
        "command": [INIT],
        "environment": config["Env"],
        "init": True,
        "restart": host["RestartPolicy"]["Name"],
        "cap_drop": host["CapDrop"],
        "shm_size": host["ShmSize"],
        "sysctls": host["Sysctls"],
        "devices": [f"{d['PathOnHost']}:{d['PathInContainer']}:{d['CgroupPermissions']}" for d in host["Devices"]],
        "extra_hosts": {name: words[0] for words in pairs for name in words[1:]},
        "volumes": [f"{bench.folder}/files/{name}{path}:{path}:ro" for path in keep_files(bench, name)],
        "networks": {
            network: {"ipv4_address": endpoint["IPAMConfig"]["IPv4Address"]}
            for network, endpoint in sorted(made["NetworkSettings"]["Networks"].items())
        },
    }


def describe_network(bench: Bench, name: str) -> dict[str, Any]:
    """One network as gpuprov made it, in compose's words."""
    made = json.loads(bench.run("docker", "network", "inspect", name))[0]
    place = {key.lower(): value for key, value in made["IPAM"]["Config"][0].items()}
    options = {"driver_opts": made["Options"], "internal": made["Internal"], "ipam": {"config": [place]}}
    return {"name": name, "driver": made["Driver"], **options}


def keep_files(bench: Bench, name: str) -> list[str]:
    """Copy a node's files to where compose mounts them from, with their owners; returns those that it has."""
    there = bench.run("docker", "exec", name, "sh", "-c", 'ls -d "$@" 2>/dev/null || true', "sh", *MOUNTED).split()
    for path in there:
        folder = (bench.folder / "files" / f"{name}{path}").parent
        folder.mkdir(parents=True, exist_ok=True)
        bench.run("sh", "-c", f"docker cp {name}:{path} - | tar -xp --numeric-owner -C {folder}")
    return there


def wait_idle() -> None:
    """Until Slurm says that every node is idle."""
    asked = "scontrol ping >/dev/null && sinfo --noheader --Node --format %T"  # sinfo alone waits a second
    command = ("docker", "exec", NODES[0], "sh", "-c", asked)
    started = time.monotonic()
    while True:
        answer = subprocess.run(command, check=False, capture_output=True, text=True)
        if answer.stdout.split() == ["idle"] * SMALL:
            return
        if time.monotonic() - started > SLURM_BUDGET_S:
            raise SystemExit(f"Slurm of the compose project: {answer.stdout}{answer.stderr}")
        time.sleep(0.05)


def up(role: str, count: int) -> tuple[str, ...]:
    """The command that brings the cluster up."""
    return (GPUPROV, "cluster", "up", "-f", f"{role}.yaml", "-n", str(count), "--no-verify")


def down() -> tuple[str, ...]:
    """The command that takes it down."""
    return (GPUPROV, "cluster", "down", NAME, "--yes", "--engine", "docker")


def compare(bench: Bench, compose: tuple[str, ...]) -> None:
    """Bring four nodes up with gpuprov and with compose, in turn."""
    bench.time("gpuprov up 4, until idle", *up("slurm", SMALL))
    project = (*compose, "--project-name", NAME, "--file", str(write_project(bench)))
    bench.time("gpuprov down 4", *down())
    try:
        time_compose(bench, project)
    finally:
        bench.time("compose down 4", *project, "down", "--timeout", "3")


def time_compose(bench: Bench, project: tuple[str, ...]) -> None:
    """Bring the project up, and wait for its Slurm."""
    taken = bench.time("compose up 4", *project, "up", "--detach")
    started = time.monotonic()
    wait_idle()
    own = time.monotonic() - started
    bench.seconds["Slurm alone, in compose's containers"].append(own)
    bench.seconds["compose up 4, until idle"].append(taken + own)


def describe_machine(bench: Bench, compose: tuple[str, ...]) -> str:
    """One line about this machine, its Docker and its compose."""
    info = json.loads(bench.run("docker", "info", "--format", "{{json .}}"))
    version = bench.run(*compose, "version", "--short").strip()
    return describe(f"Docker {info['ServerVersion']} on {info['Driver']}", f"{' '.join(compose)} {version}")


def render(bench: Bench) -> str:
    """The table."""
    rows = ["| What | Median | Range | Runs |", "|---|---|---|---|"]
    for what, taken in bench.seconds.items():
        median = f"{statistics.median(taken):.2f} s"
        rows.append(f"| {what} | {median} | {min(taken):.2f} to {max(taken):.2f} s | {len(taken)} |")
    ours, compose = (statistics.median(bench.seconds[f"{who} up 4, until idle"]) for who in ("gpuprov", "compose"))
    return "\n".join([*rows, "", f"`gpuprov cluster up` takes {ours / compose:.2f} of compose's time, until idle."])


def main() -> None:
    """Run everything, and leave nothing."""
    parser = argparse.ArgumentParser(description="times `gpuprov cluster up --engine docker` against docker-compose")
    parser.add_argument("--rounds", type=int, default=5, help=f"rounds with {SMALL} nodes")
    parser.add_argument("--plain", type=int, default=64, help="nodes without Slurm; 0: leave that out")
    wanted = parser.parse_args()
    compose = find_compose()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for role in ("slurm", "plain"):
            (bench.folder / f"{role}.yaml").write_text(SPEC.replace("ROLE", role))
        os.chdir(folder)
        try:
            bench.run(*up("slurm", 1))  # builds the image if need be
            bench.run(*down())
            for _ in range(wanted.rounds):
                compare(bench, compose)
            if wanted.plain:
                bench.run(*up("plain", 1))
                bench.run(*down())
                bench.time(f"gpuprov up {wanted.plain} plain", *up("plain", wanted.plain))
                bench.time(f"gpuprov down {wanted.plain} plain", *down())
            sys.stdout.write(f"{describe_machine(bench, compose)}\n\n{render(bench)}\n")
        finally:
            bench.run(*down())
            os.chdir("/")


if __name__ == "__main__":
    main()
