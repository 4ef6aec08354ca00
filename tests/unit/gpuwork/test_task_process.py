"""What a user of Celery expects of the process that runs tasks: it is theirs to set up, to limit and to end.

With a broker that is a folder, Celery's processes share a lock, which one that is killed may keep. So that the worker
goes on after a kill is tried with RabbitMQ, in tests/e2e/test_examples.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from celery.exceptions import TaskRevokedError, TimeLimitExceeded

from tests.unit.gpuwork.conftest import lives, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from celery import Celery
    from celery.result import AsyncResult

    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow  # real workers, and what they wait for

APP = """
import multiprocessing, os, subprocess, time
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded
from celery.signals import worker_process_init

app = Celery("app")
app.config_from_object("celeryconfig")
loaded = []

@worker_process_init.connect
def load(**_):
    loaded.append(os.getpid())

@app.task
def model():
    return [loaded, os.getpid()]

@app.task(soft_time_limit=1)
def soft():
    try:
        time.sleep(600)
    except SoftTimeLimitExceeded:
        return "ended in order"

@app.task(time_limit=2)
def hard(pids):
    nap(pids)

@app.task
def nap(pids):
    child = subprocess.Popen(["sleep", "600"])
    open(pids, "w").write(f"{child.pid}\\n")
    child.wait()

@app.task
def spread():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, [-1, -2])
"""
CONFIG = """
from gpuwork.celeryconfig import *
broker_url = "{url}"
"""


class Served:
    """Workers with an app, and a client of it."""

    def __init__(self, bed: WorkerBed, make: Callable[..., Path]) -> None:
        self.bed, self._make = bed, make
        self.client: Celery = bed.app()

    def serve(self, app: str = APP, more: str = "") -> None:
        """Start a worker for this code of an app and these settings."""
        config = CONFIG.format(url=self.bed.url_file.read_text().strip()) + more
        project = self._make({"app.py": app, "celeryconfig.py": config})
        self.bed.start("GPU-0001", "--project", str(project), "--app", "app")

    def send(self, name: str, *arguments: object, queue: str = "celery") -> AsyncResult:
        """Hand in a task."""
        return self.client.send_task(f"app.{name}", arguments, queue=queue)


@pytest.fixture
def served(bed: WorkerBed, make: Callable[..., Path]) -> Served:
    return Served(bed, make)


def read_pid(file: Path) -> int:
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"), "the task has not begun")
    return int(file.read_text())


def test_a_process_is_set_up_once_and_keeps_what_it_loaded(served: Served) -> None:
    served.serve()
    first, second = (served.send("model").get(timeout=30) for _ in range(2))
    assert first == second == [[first[1]], first[1]]
    assert served.send("spread").get(timeout=30) == [1, 2], "a task may have processes of its own"


def test_an_app_can_have_a_process_for_each_task(served: Served) -> None:
    served.serve(more="worker_max_tasks_per_child = 1\n")
    first, second = (served.send("model").get(timeout=30) for _ in range(2))
    assert first[1] != second[1]
    assert "has no effect" not in served.bed.log()


def test_a_time_limit_ends_a_task_with_its_processes(served: Served, tmp_path: Path) -> None:
    served.serve()
    assert served.send("soft").get(timeout=30) == "ended in order"
    limited = served.send("hard", str(tmp_path / "pid"))
    pid = read_pid(tmp_path / "pid")
    with pytest.raises(TimeLimitExceeded):
        limited.get(timeout=30)
    wait_until(lambda: not lives(pid), "a process of a task outlived its time limit")


def test_a_task_that_is_revoked_ends_with_its_processes(served: Served, tmp_path: Path) -> None:
    served.serve()
    revoked = served.send("nap", str(tmp_path / "pid"))
    pid = read_pid(tmp_path / "pid")
    revoked.revoke(terminate=True)
    with pytest.raises(TaskRevokedError):
        revoked.get(timeout=30)
    wait_until(lambda: not lives(pid), "a process of a task outlived it")


def test_the_limits_of_an_app_do_not_end_a_job(served: Served, queued: Jobs) -> None:
    served.serve(more="task_time_limit = 1\ntask_soft_time_limit = 0.5\n")
    queued.submit("sleep", "3")
    assert [(row["state"], row["tries"]) for row in queued.wait("1")] == [("done", 1)]


def test_the_processes_end_when_the_worker_is_killed(served: Served, tmp_path: Path) -> None:
    served.serve(APP.replace("child.wait()", "time.sleep(600)").replace("child.pid", "os.getpid()"))
    served.send("nap", str(tmp_path / "pid"))
    pid = read_pid(tmp_path / "pid")
    (_, worker), *_ = served.bed.started
    assert lives(pid)
    worker.kill()
    wait_until(lambda: not lives(pid), "it outlived its worker")


INIT = """
from celery.signals import worker_init

@worker_init.connect
def begin(**_):
    import gpuwork.worker.cli
    gpuwork.worker.cli.has_begun_cuda = lambda: True
"""


def test_an_app_that_begins_cuda_when_its_worker_begins_is_served_by_a_thread(served: Served) -> None:
    served.serve(APP + INIT)
    loaded, _ = served.send("model").get(timeout=30)
    assert loaded == [], "CUDA would fail in another process"
    assert "the app uses CUDA in worker_init, so its tasks run in a thread of the worker: " in served.bed.log()


def test_a_task_is_served_from_the_queue_that_it_is_routed_to(served: Served) -> None:
    served.serve(more='task_routes = {"app.mo*": {"queue": "gpu"}}\n')
    assert len(served.send("model", queue="gpu").get(timeout=30)) == 2


def test_what_an_app_asks_for_in_vain_is_in_the_log(served: Served) -> None:
    served.serve(more='worker_pool = "threads"\ntask_time_limit = 5\nworker_concurrency = 4\n')
    log = served.bed.log()
    assert "worker_concurrency = '4' has no effect: a worker has one GPU and runs one task at a time" in log
    assert "worker_pool = 'threads': revoke(terminate=True), task_time_limit, worker_process_init, " in log
