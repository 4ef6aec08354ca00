"""What an app asks of a worker in vain is said in a sentence, and what it has is served from all of its queues."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from celery.exceptions import CDeprecationWarning

from gpuwork import celeryconfig
from gpuwork.worker import cuda_begun
from gpuwork.worker.asked import choose_pool, find_denied, find_queues, find_void
from gpuwork.worker.cuda_begun import has_begun_cuda
from gpuwork.worker.project import load_app

if TYPE_CHECKING:
    from collections.abc import Callable

URL = "amqp://gpuwork:secret@10.0.5.1:5672/gpuwork"
OURS = {name: value for name, value in vars(celeryconfig).items() if name.islower() and not name.startswith("_")}


def nothing() -> None:
    """Stand for a task of the user's."""


@pytest.mark.parametrize(
    ("given", "denied"),
    [
        ({}, []),
        ({**OURS, "broker_url": URL}, []),
        ({"worker_pool": "threads"}, []),
        ({"worker_pool": "processes"}, []),
        ({"worker_pool": "gevent"}, ["worker_pool = 'gevent' has no effect: "]),
        ({"worker_concurrency": 8}, ["worker_concurrency = '8' has no effect: "]),
        ({"worker_prefetch_multiplier": 4}, ["worker_prefetch_multiplier = '4' has no effect: "]),
        ({"worker_enable_remote_control": False}, ["worker_enable_remote_control = 'False' has no effect: "]),
        ({"worker_consumer": "mine:Consumer"}, ["worker_consumer = 'mine:Consumer' has no effect: "]),
        ({"broker_url": "redis://:secret@elsewhere"}, ["broker_url has no effect: "]),
    ],
)
def test_a_setting_without_effect_is_told(given: dict[str, Any], denied: list[str]) -> None:
    found = [*find_denied(given, url=URL)]
    assert [words[: len(start)] for words, start in zip(found, denied, strict=True)] == denied
    assert "secret" not in "".join(found)


def test_tasks_run_in_a_process_unless_the_app_wants_a_thread_or_has_begun_cuda() -> None:
    assert choose_pool({}, has_begun_cuda=False) == "prefork"
    assert choose_pool({"worker_pool": "solo"}, has_begun_cuda=False) == "prefork"
    assert choose_pool({"worker_pool": "threads"}, has_begun_cuda=False) == "threads"
    assert choose_pool({"worker_pool": "prefork"}, has_begun_cuda=True) == "threads"


def test_what_a_thread_cannot_do_is_told_and_only_if_it_is_asked_for() -> None:
    app = Celery("theirs", set_as_current=False)
    assert [*find_void(app, {}, pool="threads", has_begun_cuda=False)] == []
    assert [*find_void(app, {"task_time_limit": 5}, pool="prefork", has_begun_cuda=False)] == []
    (words,) = find_void(app, {"task_time_limit": 5}, pool="threads", has_begun_cuda=False)
    assert words.startswith("worker_pool = 'threads': revoke(terminate=True), task_time_limit have no effect")
    (words,) = find_void(app, {}, pool="threads", has_begun_cuda=True)
    assert words.startswith("the app uses CUDA while it is imported, so its tasks run in a thread")

    app.task(nothing, shared=False, name="app.limited", time_limit=9)
    app.conf.beat_schedule = {"nightly": {"task": "app.limited", "schedule": 60}}
    beat, limit = find_void(app, {}, pool="threads", has_begun_cuda=False)
    assert "celery beat" in beat
    assert "the time limit of app.limited have no effect" in limit


def test_the_queues_of_an_app_are_those_to_which_its_tasks_are_routed() -> None:
    app = Celery("theirs", set_as_current=False)
    app.task(nothing, shared=False, name="app.plain")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CDeprecationWarning)  # it is still common
        app.task(nothing, shared=False, name="app.own", queue="own")
        app.finalize()
    app.task(nothing, shared=False, name="app.train.net")
    app.conf.task_routes = {"app.train.*": {"queue": "gpu"}, "others.*": {"queue": "others"}}
    assert find_queues(app) == (["celery", "own", "gpu"], [])


def test_a_router_that_fails_is_told() -> None:
    app = Celery("theirs", set_as_current=False)
    app.task(nothing, shared=False, name="app.plain")
    app.conf.task_routes = (lambda *_, **__: 1 / 0,)
    queues, (fault,) = find_queues(app)
    assert (queues, fault) == (
        ["celery"],
        "the queue of task app.plain is not known: ZeroDivisionError: division by zero",
    )


def test_an_app_that_begins_cuda_when_it_is_imported_is_served_by_a_thread(
    make: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwork.worker.project.has_begun_cuda", lambda: True)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(Path.cwd())
    project = make({"begins.py": "from celery import Celery\napp = Celery('a', set_as_current=False)\n"})
    served = load_app(project, "begins", URL)
    assert (served.pool, served.fault) == ("threads", None)
    assert "begin CUDA in a task or in worker_process_init instead" in served.notices[0]


class Driver:
    """Stands for libcuda.so.1, which answers 3 until somebody begins CUDA."""

    def __init__(self, status: int) -> None:
        self.status = status

    def __call__(self, name: str, *, mode: int) -> Driver:
        assert name == "libcuda.so.1"
        assert mode & os.RTLD_NOLOAD, "it is not loaded, only found"
        return self

    def cuDeviceGetCount(self, _count: object) -> int:  # noqa: N802  (CUDA's)
        return self.status


def test_cuda_is_asked_only_where_it_has_been_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_begun_cuda(), "there is none here"
    for status, has_begun in ((3, False), (0, True), (100, True)):
        monkeypatch.setattr(ctypes, "CDLL", Driver(status))
        assert cuda_begun.has_begun_cuda() is has_begun
