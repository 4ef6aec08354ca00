"""How soon the GPUs of a container are free again after a kill, with the runtime of `gpuprov gate`.

Usage, as root, with Docker installed: python -m benchmarks.runtime_faults [--rounds 5]

Starts a dockerd of its own with live-restore, kills what the tests of faults kill, and looks every 5 ms until nothing
is held or waits any more. Fails if a GPU is ever held twice. Prints a table in Markdown; docs/gate.md holds one.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.e2e.test_gate_faults import (
    ALL,
    GPUS,
    VICTIMS,
    begin,
    clear,
    held,
    kill,
    one_that_waits,
    prepare,
    queue,
    shim_of,
)
from tests.own_docker import own_docker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.own_docker import OwnDocker

LIMIT_S = 60.0
LOOK_S = 0.005
MS = 1000.0


def until(seen: Callable[[], object]) -> float:
    """Milliseconds until it is so."""
    began_s = time.perf_counter()
    while not seen():
        if time.perf_counter() - began_s > LIMIT_S:
            raise SystemExit("it never happened")
        time.sleep(LOOK_S)
    return (time.perf_counter() - began_s) * MS


def of_holder(docker: OwnDocker, find: Callable[[OwnDocker], list[int]]) -> float:
    """A container that holds all GPUs is killed."""
    begin(docker, "holder", ALL)
    kill(*find(docker))
    return until(lambda: not held(docker))


def of_waiting(docker: OwnDocker, victim: str) -> float:
    """A start that waits is killed."""
    begin(docker, "holder", ALL)
    with one_that_waits(docker, "waits"):
        kill(*VICTIMS[victim](docker))
        return until(lambda: not queue(docker))


def handed_over(docker: OwnDocker) -> float:
    """A container ends, and the one that waits has its GPU."""
    begin(docker, "holder", ALL)
    with one_that_waits(docker, "waits"):
        kill(*first_of(docker))
        until(lambda: "holder" not in held(docker))
        return until(lambda: "waits" in held(docker))


def without_dockerd(docker: OwnDocker) -> float:
    """How long the leases of a container that goes on cannot be seen while dockerd is killed and started."""
    begin(docker, "holder", ALL)
    docker.stop(signal.SIGKILL)
    unseen = until(lambda: len(held(docker).get("holder", ())) == GPUS)
    docker.start()
    return unseen + until(lambda: len(held(docker).get("holder", ())) == GPUS)


def first_of(docker: OwnDocker) -> list[int]:
    """The first process of the holder."""
    return [int(docker.docker("inspect", "-f", "{{.State.Pid}}", "holder").stdout)]


def measure(docker: OwnDocker, rounds: int) -> dict[str, list[float]]:
    """Each fault so many times."""
    acts: dict[str, Callable[[OwnDocker], float]] = {
        "first process of a holder killed, until its GPUs are free": partial(of_holder, find=first_of),
        "shim of a holder killed, until its GPUs are free": partial(of_holder, find=partial(shim_of, name="holder")),
        "holder ended, until a start that waits has its GPUs": handed_over,
        **{
            f"{victim} of a start that waits killed, until it waits no more": partial(of_waiting, victim=victim)
            for victim in VICTIMS
        },
        "dockerd killed and started, how long its leases cannot be seen": without_dockerd,
    }
    times: dict[str, list[float]] = {what: [] for what in acts}
    for _ in range(rounds):
        for what, act in acts.items():
            times[what].append(act(docker))
            clear(docker)
    return times


def main() -> None:
    """Run everything, and leave nothing."""
    parser = argparse.ArgumentParser(description="times how soon GPUs are free after kills")
    parser.add_argument("--rounds", type=int, default=5)
    wanted = parser.parse_args()
    with own_docker("--live-restore") as docker:
        prepare(docker)
        times = measure(docker, wanted.rounds)
    rows = [f"| {what} | {statistics.median(ms):.0f} ms | {max(ms):.0f} ms |" for what, ms in times.items()]
    head = [
        f"{wanted.rounds} rounds; load {os.getloadavg()[0]:.1f}.",
        "",
        "| What | Median | Longest |",
        "|---|---|---|",
    ]
    sys.stdout.write("\n".join([*head, *rows, ""]))


if __name__ == "__main__":
    main()
