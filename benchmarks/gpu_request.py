"""How long a request for a GPU takes to be decided, with many containers present, beside Docker's own time.

Usage, as root, with Docker prepared: python -m benchmarks.gpu_request [--containers 100] [--rounds 30]

Makes containers of gpuprov's own, each holding a GPU, and then asks for one GPU again and again, as `gpuprov run` does
in its process: image, host lock, nodes of Docker, leases of every other engine, the queue, the choice, the design
of the container. Only the container is not made. Docker's own time is the SDK's plain list of the same containers, in
turn in the same run. Prints a table in Markdown; docs/benchmarks.md holds one.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.cluster.leases import Neighbours
from gpuprov.core.reporter import Silent
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_GPUS, LABEL_ROLE, LABEL_SHARING, NodeRequest
from gpuprov.drivers.docker.connect import connect
from gpuprov.drivers.docker.driver import DockerDriver
from gpuprov.gpu.simulated_hosts import SIMULATED_MAX
from gpuprov.gpu.waiting_for_gpus import AT_ONCE
from gpuprov.lifecycle.run_job import run_job
from gpuprov.machine.local import COUNT_VARIABLE, LocalHost
from gpuprov.shapes.gpu_order import GpuOrder
from gpuprov.shapes.run_order import RunOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.gpu.models import HostGpus

NAME = "gptbench"
IMAGE = "gptbench:empty"
MS = 1000.0


class Deciding(DockerDriver):
    """Docker, but that a job is not made once it is decided."""

    def run_job(self, *_: object, started: Callable[[], object], **__: object) -> int:
        """Say that it runs."""
        started()
        return 0


def make(driver: DockerDriver, host: HostGpus, count: int, folder: Path) -> None:
    """Containers that are made and never started; each holds a GPU of the upper half, shared with others."""
    empty = folder / "empty.tar"
    empty.write_bytes(bytes(10240))
    driver._api.client.import_image(str(empty), repository="gptbench", tag="empty")  # noqa: SLF001 - for a benchmark
    for number in range(count):
        uuid = host.units[SIMULATED_MAX // 2 + number % (SIMULATED_MAX // 2)].uuid
        labels = {LABEL_CLUSTER: NAME, LABEL_ROLE: "plain", LABEL_GPUS: uuid, LABEL_SHARING: "shared"}
        request = NodeRequest(name=f"{NAME}-{number}", image=IMAGE, labels={**labels, LABEL_FINGERPRINT: "1"})
        driver.create_node(request)


def remove(driver: DockerDriver) -> None:
    """Take all of it away."""
    for node in driver.list_nodes():
        if node.labels.get(LABEL_CLUSTER) == NAME:
            driver.delete_node(node.name)
    if driver.find_image(IMAGE):
        driver._api.client.remove_image(IMAGE)  # noqa: SLF001 - as above


def timed(act: Callable[[], object]) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * MS


def measure(driver: DockerDriver, host: LocalHost, rounds: int) -> dict[str, list[float]]:
    """Each of the things to compare, in turn."""
    neighbours = Neighbours(host)
    order = RunOrder(argv=("true",), gpus=GpuOrder(per_node="1", sharing="shared"), image=IMAGE, gpu_mode="simulated")
    client: Any = driver._api.client  # noqa: SLF001 - as above

    def ask() -> None:
        run_job(driver, order, host, patience=AT_ONCE, write=lambda *_: None, reporter=Silent())

    acts: dict[str, Callable[[], object]] = {
        "request for one GPU, up to the decision": ask,
        "of that: leases of the other engines": lambda: neighbours.survey(without="docker"),
        "the docker SDK's plain list of containers": lambda: client.containers(all=True),
    }
    for act in acts.values():
        act()  # connections are opened
    times: dict[str, list[float]] = {what: [] for what in acts}
    for _ in range(rounds):
        for what, act in acts.items():
            times[what].append(timed(act))
    return times


def render(times: dict[str, list[float]], present: int) -> str:
    """The table."""
    *_, bare = times
    base = statistics.median(times[bare])
    rows = ["| What | Median | Range | Compared with the plain list |", "|---|---|---|---|"]
    for what, values in times.items():
        middle = statistics.median(values)
        rows.append(
            f"| {what} | {middle:.1f} ms | {min(values):.1f} to {max(values):.1f} ms | {middle / base:.1f} times |"
        )
    return f"{present} containers present; load {os.getloadavg()[0]:.1f}.\n\n" + "\n".join(rows)


def main() -> None:
    """Run everything, and leave nothing."""
    parser = argparse.ArgumentParser(description="times requests for a GPU")
    parser.add_argument("--containers", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=30)
    wanted = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what ends it leaves nothing either
    driver = Deciding(connect("docker")._api)  # noqa: SLF001 - as above
    host = LocalHost(environment={COUNT_VARIABLE: str(SIMULATED_MAX)})
    remove(driver)
    try:
        with tempfile.TemporaryDirectory() as folder:
            make(driver, host.gpus("simulated"), wanted.containers, Path(folder))
        times = measure(driver, host, wanted.rounds)
        sys.stdout.write(f"{render(times, len(driver.list_nodes()))}\n")
    finally:
        remove(driver)


if __name__ == "__main__":
    main()
