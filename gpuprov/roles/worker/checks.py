"""Whether the broker answers, and each worker of the node for its GPU, and whether all queues are served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from gpuprov.core.excerpt import excerpt
from gpuprov.roles.leftovers import judge_left
from gpuprov.roles.work.node_program import parse_answer
from gpuprov.roles.worker.facts import NAME
from gpuprov.roles.worker.queues import find_unserved
from gpuprov.shapes.base import read
from gpuprov.shapes.error import Error
from gpuprov.shapes.workers import Workers
from gpuprov.verify.checks.driver import NO_GPU, facts_of
from gpuprov.verify.finding import failed, not_asked, passed, unknown, warned
from gpuprov.verify.models import Rule

if TYPE_CHECKING:
    from gpuprov.shapes.workers import Worker
    from gpuprov.verify.models import Expectation, Finding, Observation

_NO_WORKER = f"the node's role is not {NAME}"
_SAID = 300


def judge_broker(expected: Expectation, seen: Observation) -> Finding:
    """The broker answers in this node."""
    if expected.role != NAME:
        return not_asked(_NO_WORKER)
    asked = facts_of(seen, NAME)["workers"]
    if asked["timed_out"]:
        return unknown(f"no response from the broker within {asked['seconds']:.0f} s")
    try:
        told = parse_answer(asked["stdout"])
        if not isinstance(told, Error):
            read(Workers, told)
            return passed("it answers")
    except ValueError as error:
        said = (asked["stderr"] or asked["stdout"]).strip()[-_SAID:] or f"exit status {asked['exit_code']}"
        return failed(excerpt(f"{error}: {said}"))
    return failed(excerpt(f"{told.error.what}: {told.error.evidence}"))


def judge_alive(expected: Expectation, seen: Observation) -> Finding:
    """As many workers of the node answer as it has GPUs, and all take work."""
    if expected.role != NAME or not expected.gpus:
        return not_asked(NO_GPU if expected.role == NAME else _NO_WORKER)
    workers = _workers_of(expected, seen)
    count, wanted = len(workers), len(expected.gpus)
    if count != wanted:
        return failed(f"{count} of its {wanted} workers answer")
    faults = [worker.fault for worker in workers if worker.fault is not UNSET]
    if faults:
        return failed(excerpt(f"it takes no work: {'; '.join(faults)}"))
    return passed(f"{count} of {wanted} answer")


def judge_gpu(expected: Expectation, seen: Observation) -> Finding:
    """A task on each worker sees a GPU of its own, and these are the node's; a busy one says which GPU it has."""
    if expected.role != NAME or not expected.gpus:
        return not_asked(NO_GPU if expected.role == NAME else _NO_WORKER)
    found = sorted(worker.task_gpu or worker.gpu for worker in _workers_of(expected, seen))
    mark = "SIMULATED " if expected.simulated else ""
    if found != sorted(expected.gpus):
        told = ", ".join(found)
        return failed(f"work on it sees {mark}{told}, but the node holds {', '.join(expected.gpus)}")
    return passed(f"work sees {mark}{', '.join(found)}")


def judge_left_by_runs(expected: Expectation, seen: Observation) -> Finding:
    """No process of a run is there without the program that works on the run."""
    if expected.role != NAME:
        return not_asked(_NO_WORKER)
    return judge_left(facts_of(seen, NAME)["left"])


def judge_queues(expected: Expectation, seen: Observation) -> Finding:
    """No message waits in a queue that no worker serves (warning)."""
    asked = facts_of(seen, NAME).get("queues") if expected.role == NAME else None
    if asked is None:
        return not_asked(_NO_WORKER)
    if asked["exit_code"] == 0 and not asked["stdout"]:
        return not_asked("the broker is not in this node")
    try:
        unserved = find_unserved(asked["stdout"]) if asked["exit_code"] == 0 else None
    except ValueError as error:
        return unknown(excerpt(str(error)))
    if unserved is None:
        return unknown(excerpt(f"RabbitMQ does not list its queues: {asked['stderr'].strip()[-_SAID:]}"))
    if unserved:
        counts = {name: f"{count} message{'s' if count > 1 else ''}" for name, count in unserved.items()}
        words = [f"queue {name!a} has {count} and no consumer" for name, count in counts.items()]
        return warned(excerpt("; ".join(words)))
    return passed("a worker serves each queue that has messages")


def _workers_of(expected: Expectation, seen: Observation) -> list[Worker]:
    """Those of the node; none where the answer is not what the program prints, which the first check says."""
    try:
        answered = read(Workers, facts_of(seen, NAME)["workers"]["stdout"])
    except ValueError:
        return []
    return [worker for worker in answered.workers if worker.node == expected.node]


RULES = (
    Rule(id="broker-answers", layer="work", needs=("network-private",), judge=judge_broker, fact=NAME),
    Rule(id="worker-alive", layer="work", needs=("broker-answers",), judge=judge_alive, fact=NAME),
    Rule(id="queues-served", layer="work", needs=("broker-answers",), judge=judge_queues, fact=NAME),
    Rule(id="worker-gpu", layer="work", needs=("worker-alive", "nvml-uuids"), judge=judge_gpu, fact=NAME),
    Rule(id="worker-leftovers", layer="work", needs=("network-private",), judge=judge_left_by_runs, fact=NAME),
)
