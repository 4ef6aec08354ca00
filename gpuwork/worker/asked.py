"""What an app asks of a worker: which of it a worker cannot give, and in which queues its tasks are.

A sentence for each thing that has no effect is all that an app gets instead, so nothing is left out silently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from celery import signals

from gpuwork import celeryconfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from celery import Celery

PROCESS: Final = "prefork"
THREAD: Final = "threads"
_ONE: Final = "a worker has one GPU and runs one task at a time"
_WHY: Final = {
    "worker_concurrency": _ONE,
    "worker_prefetch_multiplier": _ONE,
    "worker_pool": "a worker runs tasks in a process (prefork) or in a thread (threads)",
    "worker_enable_remote_control": "gpuprov asks workers by it whether they are there",
    "worker_consumer": "a worker has a part of its own that talks to the broker",
    "broker_url": "a worker takes tasks from the broker of the cluster",
}
_LIMITS: Final = ("task_time_limit", "task_soft_time_limit")
_OF_PROCESSES: Final = (*_LIMITS, "worker_max_tasks_per_child", "worker_max_memory_per_child")
_OURS: Final = ("celery.", "gpuwork.")
_BEGUN: Final = "the app uses CUDA while it is imported, so its tasks run in a thread of the worker"
BEGUN_AT_INIT: Final = (
    "the app uses CUDA in worker_init, so its tasks run in a thread of the worker: revoke(terminate=True), time limits "
    "and worker_process_init have no effect; begin CUDA in a task or in worker_process_init instead"
)


def choose_pool(given: Mapping[str, Any], *, has_begun_cuda: bool) -> str:
    """Where tasks run: in a process, unless the app wants a thread or has used CUDA, which no fork survives."""
    return THREAD if has_begun_cuda or given.get("worker_pool") == THREAD else PROCESS


def find_denied(given: Mapping[str, Any], *, url: str) -> Iterator[str]:
    """The settings of an app that have no effect, before ours replace them; none shows a URL."""
    wanted = {
        **{name: getattr(celeryconfig, name) for name in ("worker_concurrency", "worker_prefetch_multiplier")},
        "worker_enable_remote_control": True,
        "worker_consumer": None,
        "broker_url": url,
    }
    for name, why in _WHY.items():
        value = given.get(name)
        has_effect = value in (PROCESS, "processes", THREAD) if name == "worker_pool" else value == wanted[name]
        if value is not None and not has_effect:
            shown = "" if name == "broker_url" else f" = {str(value)!a:.80}"
            yield f"{name}{shown} has no effect: {why}"


def find_void(app: Celery, given: Mapping[str, Any], *, pool: str, has_begun_cuda: bool) -> Iterator[str]:
    """What else of an app that has been loaded has no effect."""
    if app.conf.beat_schedule:
        yield "beat_schedule has no effect: no worker runs `celery beat`; run that in one node"
    if pool == PROCESS:
        return
    asked = [name for name in _OF_PROCESSES if given.get(name)]
    asked += [name for name in ("worker_process_init", "worker_process_shutdown") if getattr(signals, name).receivers]
    asked += [
        f"the time limit of {name}"
        for name, task in sorted(app.tasks.items())
        if not name.startswith(_OURS) and _has_own_limit(task, given)
    ]
    lost = ", ".join(["revoke(terminate=True)", *asked])
    if has_begun_cuda:
        yield f"{_BEGUN}: {lost} have no effect; begin CUDA in a task or in worker_process_init instead"
    elif asked:
        yield f"worker_pool = 'threads': {lost} have no effect; omit it to have a process for tasks"


def find_queues(app: Celery) -> tuple[list[str], list[str]]:
    """The queues of an app, those to which its tasks are routed included; and what cannot be found out."""
    names, faults = [*app.amqp.queues], []
    for name, task in sorted(app.tasks.items()):
        if name.startswith(_OURS):
            continue
        options = {"queue": task.queue} if getattr(task, "queue", None) else {}
        try:
            queue = app.amqp.router.route(options, name, task_type=task)["queue"]
        except Exception as error:  # noqa: BLE001  (a router of the user's may raise anything)
            faults.append(f"the queue of task {name} is not known: {type(error).__name__}: {error}")
        else:
            names.append(queue.name)
    return list(dict.fromkeys(names)), faults


def _has_own_limit(task: object, given: Mapping[str, Any]) -> bool:
    return any(getattr(task, name.removeprefix("task_"), None) not in (None, given.get(name)) for name in _LIMITS)
