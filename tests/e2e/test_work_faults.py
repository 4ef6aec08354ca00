"""Many small tasks on four nodes with workers, while workers, nodes, the broker and the engine are killed at random."""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from gpuprov.core.waiting import Wait
from tests.e2e.killing import kill_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

NODES: Final = 4
TASK: Final = ("echo", "end")
KILL: Final = 'for _ in $(seq 300); do pkill -KILL "$@" && exit; sleep 0.1; done; exit 1'


class Queue:
    """Four nodes with a worker each; the first one has the broker."""

    def __init__(self, gpuprov: Gpuprov, place: Place) -> None:
        self.gpuprov, self.place = gpuprov, place
        self.nodes = [place.node(number) for number in range(NODES)]
        self.kills: dict[str, Callable[[], object]] = {
            "worker": lambda: self._kill(random.choice(self.nodes), "-f", "gpuwork[.]worker"),
            "broker": lambda: self._kill(self.nodes[0], "beam.smp"),
            "node": lambda: self._restart(random.choice(self.nodes)),
            "engine": self._kill_engine,
        }

    def rows(self, job: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = self.gpuprov.json("jobs", "show", "--cluster", self.place.cluster, job)["jobs"]
        return found

    def wait_for(self, job: str, least: int) -> None:
        """Until so many runs of a job have ended."""
        Wait(what=f"{least} tasks to end", timeout_s=600, fix="look at the queue").until(
            lambda: sum(row["state"] == "done" for row in self.rows(job)), lambda done: done >= least
        )

    def _kill(self, node: str, *which: str) -> None:
        """Kill what may just be starting; it must be there."""
        self.gpuprov("exec", node, "--", "sh", "-c", KILL, "sh", *which)

    def _restart(self, node: str) -> None:
        self.gpuprov("stop", node, "--force")
        self.gpuprov("start", node)

    def _kill_engine(self) -> None:
        kill_engine()
        self.gpuprov("host", "prepare")


@pytest.fixture(scope="module")
def queue(gpuprov: Gpuprov, place: Place) -> Iterator[Queue]:
    spec = gpuprov.folder / "faults.yaml"
    spec.write_text(place.spec(count=NODES, nodes="role: worker", share="true"))
    shutil.rmtree(f"/srv/gpuprov/{place.cluster}", ignore_errors=True)  # of a killed run
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    yield Queue(gpuprov, place)
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")


@pytest.mark.parametrize(
    ("tasks", "kills"), [(200, 4), pytest.param(10_000, 40, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_every_task_ends_once_whatever_is_killed(queue: Queue, tasks: int, kills: int) -> None:
    order = ("--cluster", queue.place.cluster, "--no-project", "--retries", "0", "--count", str(tasks))
    job = queue.gpuprov("submit", *order, "--", *TASK).stdout.strip()
    killed: Counter[str] = Counter()
    hows = [*queue.kills]
    for number in range(kills):
        queue.wait_for(job, tasks * (number + 1) // (kills + 1))
        how = hows[number] if number < len(hows) else random.choice(hows)
        queue.kills[how]()
        killed[how] += 1
        time.sleep(random.uniform(0, 2))
    queue.gpuprov("jobs", "wait", "--cluster", queue.place.cluster, job)
    rows = queue.rows(job)
    assert Counter(row["state"] for row in rows) == {"done": tasks}, killed
    assert {row["exit_status"] for row in rows} == {0}
    logs = f"/srv/gpuprov/{queue.place.cluster}/jobs/{job}/runs"
    ends = Counter(_count_ends(f"{logs}/{number}/log.txt") for number in range(tasks))
    assert ends.keys() <= {1, 2}, ends  # killed behind its last word, a task says it again
    again = sum(row["tries"] != 1 for row in rows)
    sys.stderr.write(f"{tasks} tasks, killed: {dict(killed)}; begun again: {again}\n")


def _count_ends(path: str) -> int:
    with open(path) as log:  # noqa: PTH123
        return log.read().split().count("end")
