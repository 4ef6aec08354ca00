"""What the workers in the nodes and their broker are asked and told."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from gpuprov.cluster import services
from gpuprov.cluster.held_gpus import leased_uuids
from gpuprov.core.errors import GpuprovError, TimedOut
from gpuprov.core.excerpt import excerpt
from gpuprov.core.silence_limit import more_time, scaled_limit_s
from gpuprov.core.waiting import Wait
from gpuprov.roles.worker.facts import BROKER_SERVICE, WORKERS
from gpuprov.shapes.base import read
from gpuprov.shapes.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.shapes.workers import Worker

IDLE: Final = "idle"
BUSY: Final = "busy"
READY: Final = frozenset({IDLE, BUSY})
NO_BROKER: Final = "no broker"
_NOT_SCRUBBED: Final = "GPU not scrubbed"
_READY_BUDGET_S: Final = 90.0  # for the next of the nodes
_ASK_S: Final = "5"  # in which the broker starts; then there is a word again
_MOST_LOGS: Final = 3
_MOST_LINES: Final = 3


def count_expected(nodes: Iterable[NodeState]) -> dict[str, int]:
    """How many workers each node that runs should have: one for each of its GPUs."""
    return {node.name: len(leased_uuids(node)) for node in nodes if node.status == "running"}


def words_of_workers(driver: Driver, asked: str, expected: Mapping[str, int], *more: str) -> dict[str, str]:
    """A word for each node, from what its workers say by the broker.

    Args:
        asked: The node in which the question is put.
        expected: The number of workers of each node.
        more: Options of the question.

    Raises:
        GpuprovError: The broker does not answer.
    """
    from gpuprov.roles.work.job_controller import (
        JobController,  # here, for tables of Slurm's nodes start sooner without
    )

    controller = JobController(driver=driver, node=asked, cluster="")
    question = ("workers", "--expect", str(sum(expected.values())), *more)
    return describe_workers(controller.ask(partial(read, Workers), *question).workers, expected)


def describe_workers(answered: Iterable[Worker], expected: Mapping[str, int]) -> dict[str, str]:
    """A word for each node, by what workers say of themselves."""
    seen: Counter[str] = Counter()
    busy, faulty = set(), set()
    for worker in {worker.name: worker for worker in answered}.values():
        if worker.fault is not UNSET:
            faulty.add(worker.node)
            continue
        seen[worker.node] += 1
        if worker.busy:
            busy.add(worker.node)
    return {
        name: (BUSY if name in busy else IDLE)
        if seen[name] >= wanted
        else f"{seen[name]} of {wanted} workers{f', {_NOT_SCRUBBED}' if name in faulty else ''}"
        for name, wanted in expected.items()
    }


def await_workers(driver: Driver, asked: str, expected: Mapping[str, int], reporter: Reporter) -> dict[str, str]:
    """Wait until all workers answer; returns the last word for each node.

    Raises:
        TimedOut: With each node's last word.
    """
    unready: list[str] = []

    def observe() -> dict[str, str]:
        try:
            words = words_of_workers(driver, asked, expected, "--within", _ASK_S)
        except GpuprovError:
            words = dict.fromkeys(expected, NO_BROKER)
        for name, word in words.items():
            reporter.node(name, word)
        return words

    def ready(words: dict[str, str]) -> bool:
        unready[:] = [name for name, word in words.items() if word not in READY]
        return not unready

    log = services.log_command(driver, asked, (BROKER_SERVICE, WORKERS))
    wait = Wait(
        what=f"the workers of {len(expected)} nodes to answer",
        timeout_s=scaled_limit_s(_READY_BUDGET_S),
        fix=f"{log}; {more_time()}",
    )
    try:
        return wait.until(observe, ready, undone=lambda: len(unready))
    except TimedOut as error:
        said = [line for name in unready[:_MOST_LOGS] for line in _last_lines(driver, name)]
        raise TimedOut(error.what, evidence="\n".join([error.evidence, *said]), fix=error.fix) from error


def _last_lines(driver: Driver, name: str) -> list[str]:
    """What a node's workers said last, where that can be read."""
    with suppress(GpuprovError):
        lines = services.read_log(driver, name, WORKERS).strip().splitlines()
        return [f"{name}: {excerpt(line)}" for line in lines[-_MOST_LINES:]]
    return []
