"""How long a container takes to start with the runtime of `gpuprov gate`, beside runc alone, in turn in one run.

Usage, as root, with Docker installed: python -m benchmarks.runtime_cost [--rounds 100]

Starts a dockerd of its own and gives it the runtime. Then each round starts one container by each of: runc, the runtime
with nothing asked (as default runtime and by name), and the runtime with one simulated GPU. Two ways: `docker run --rm`
as people type it, and Docker's API, where the start alone is timed. The rounds take turns in who comes first. Ratios
are medians of the ratios to runc of the same round. With `--engines`, the machine's other engines are asked for
leases as well, as on a machine whose nodes have GPUs. Prints a table in Markdown; docs/benchmarks.md holds one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from typing import TYPE_CHECKING

from tests.own_docker import own_docker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.own_docker import OwnDocker

IMAGE = "gptbench-runtime"
BASE = "runc"
MS = 1000.0
KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {  # what it is called: the runtime, and variables
    BASE: ("runc", ()),
    "no GPU asked, by default": ("gpuprov-default", ()),
    "no GPU asked, by name": ("gpuprov", ()),
    "with a simulated GPU": ("gpuprov", ("GPUPROV_GPUS=1",)),
}


def typed(docker: OwnDocker, runtime: str, variables: tuple[str, ...]) -> float:
    """Milliseconds of `docker run --rm`."""
    words = [word for variable in variables for word in ("-e", variable)]
    began_s = time.perf_counter()
    done = docker.docker("run", "--rm", "--network", "none", "--runtime", runtime, *words, IMAGE, "true")
    took_s = time.perf_counter() - began_s
    if done.returncode:
        raise SystemExit(done.stderr)
    return took_s * MS


def by_api(docker: OwnDocker, runtime: str, variables: tuple[str, ...]) -> float:
    """Milliseconds of the start alone."""
    host = {"Runtime": runtime, "NetworkMode": "none"}
    wanted = {"Image": IMAGE, "Cmd": ["true"], "Env": [*variables], "HostConfig": host}
    made = docker.ask("POST", "/v1.41/containers/create", wanted)["Id"]
    began_s = time.perf_counter()
    refused = docker.ask("POST", f"/v1.41/containers/{made}/start")
    took_s = time.perf_counter() - began_s
    if refused:
        raise SystemExit(str(refused))
    docker.ask("POST", f"/v1.41/containers/{made}/wait")
    docker.ask("DELETE", f"/v1.41/containers/{made}?force=1")
    return took_s * MS


def measure(docker: OwnDocker, act: Callable[..., float], rounds: int) -> dict[str, list[float]]:
    """Each kind once a round, beginning with another one each time; a first round does not count."""
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    order = list(KINDS)
    for number in range(rounds + 1):
        for kind in order:
            took = act(docker, *KINDS[kind])
            if number:
                times[kind].append(took)
        order = [*order[1:], order[0]]
    return times


def render(what: str, times: dict[str, list[float]]) -> list[str]:
    """Rows of the table."""
    rows = []
    for kind, values in times.items():
        ratios = [value / base for value, base in zip(values, times[BASE], strict=True)]
        low, _, high = statistics.quantiles(values, n=4)
        middle = statistics.median(values)
        rows.append(f"| {what}: {kind} | {middle:.0f} ms ({low:.0f} to {high:.0f}) | {statistics.median(ratios):.2f} |")
    return rows


def main() -> None:
    """Run everything, and leave nothing."""
    parser = argparse.ArgumentParser(description="times starts of containers with the runtime against runc")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--engines", action="store_true", help="ask the machine's other engines too")
    wanted = parser.parse_args()
    with own_docker() as docker:
        docker.load_image(IMAGE)
        docker.gpuprov("gate", "up", "--default")
        if not wanted.engines:
            docker.only_itself()
        rows = [
            row
            for what, act in (("`docker run --rm`", typed), ("start", by_api))
            for row in render(what, measure(docker, act, wanted.rounds))
        ]
    head = ["| What | Median (quartiles) | Median of ratios to runc |", "|---|---|---|"]
    sys.stdout.write("\n".join([f"{wanted.rounds} rounds; load {os.getloadavg()[0]:.1f}.", "", *head, *rows, ""]))


if __name__ == "__main__":
    main()
