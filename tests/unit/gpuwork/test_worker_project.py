"""A Celery app as its user wrote it is served by the same worker as jobs, and begins anew when its code changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from celery import Celery

from gpuwork import broker_file, celeryconfig
from gpuwork.broker import make_app
from gpuwork.worker.project import settle, sign_code
from tests.fakes.worker_bed import ROOT
from tests.unit.gpuwork.conftest import lives, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow  # real workers, and what they wait for

# As in Celery's own first steps, with settings in a module of their own.
APP = """
import os, time
from celery import Celery

app = Celery("app")
app.config_from_object("celeryconfig")

@app.task
def add(x, y):
    return x + y

@app.task
def slow(folder):
    first = not os.path.exists(folder + "/seen")
    open(folder + "/seen", "a").write(f"{os.getppid()}\\n")
    time.sleep(600 if first else 0)
"""
CONFIG = """
broker_url = "{url}"
result_backend = "rpc://"
timezone = "Europe/Zurich"
task_track_started = True
"""
CLIENT = """
from app import add

print(add.delay(4, 4).get(timeout=30))
"""
# The one thing that a user's Python does not know here is the broker that is a folder.
START = (
    "import runpy, sys; from tests.fakes.brokerfolder import register; register(); sys.path[0] = ''; "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)


@pytest.fixture
def project(bed: WorkerBed, make: Callable[..., Path]) -> Path:
    config = CONFIG.format(url=bed.url_file.read_text().strip())
    return make({"app.py": APP, "celeryconfig.py": config, "client.py": CLIENT})


def run(project: Path, *argv: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START, *argv], cwd=project, env=env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def serve(bed: WorkerBed, project: Path, gpu: str = "GPU-0001") -> subprocess.Popen[bytes]:
    return bed.start(gpu, "--project", str(project), "--app", "app")


def test_an_unchanged_app_and_client_work_beside_jobs(bed: WorkerBed, queued: Jobs, project: Path) -> None:
    serve(bed, project)
    assert run(project, "client.py") == "8\n"
    queued.submit("echo", "a job")
    assert queued.wait("1")[0]["state"] == "done"
    told = bed.app().send_task("gpuwork.call", ("app:add", {"x": 1, "y": 2}), queue="gpuwork")
    assert told.get(timeout=30) == 3


def test_a_task_of_a_killed_worker_is_run_by_another(bed: WorkerBed, project: Path, tmp_path: Path) -> None:
    first = serve(bed, project)
    code = f"from app import slow; slow.delay({str(tmp_path)!r})"
    (project / "send.py").write_text(code)
    run(project, "send.py")
    seen = tmp_path / "seen"
    wait_until(seen.exists, "the task has not begun")
    second = serve(bed, project, "GPU-0002")
    first.kill()
    wait_until(lambda: seen.read_text().split() == [str(first.pid), str(second.pid)], seen.read_text())


def test_a_change_of_its_code_is_served_at_once(bed: WorkerBed, project: Path) -> None:
    worker = serve(bed, project)
    assert run(project, "client.py") == "8\n"
    (project / "app.py").write_text(APP.replace("x + y", "x * y"))
    wait_until(lambda: bed.log().count(" ready.") == 2, bed.log())
    assert run(project, "client.py") == "16\n"
    assert not (project / "__pycache__").exists()
    assert worker.poll() is None, "the same process, so that its supervisor sees nothing"
    assert "the code of" in bed.log()


def test_code_that_is_broken_keeps_no_job_from_running(bed: WorkerBed, queued: Jobs, project: Path) -> None:
    (project / "app.py").write_text("import no_such_module\n")
    worker = serve(bed, project)
    queued.submit("true")
    assert queued.wait("1")[0]["state"] == "done"
    assert "No module named 'no_such_module'" in bed.log()
    (project / "app.py").write_text(APP)
    wait_until(lambda: bed.log().count(" ready.") == 2, bed.log())
    assert run(project, "client.py") == "8\n"
    assert lives(worker.pid)


def test_a_project_that_comes_and_goes_is_served_while_it_is_there(bed: WorkerBed, project: Path) -> None:
    aside = project.rename(project.with_name("aside"))
    worker = serve(bed, project)
    assert "cannot be served" not in bed.said()
    aside.rename(project)
    wait_until(lambda: bed.log().count(" ready.") == 2, bed.log())
    assert run(project, "client.py") == "8\n"
    shutil.rmtree(project)
    wait_until(lambda: bed.log().count(" ready.") == 3, bed.log())
    assert worker.poll() is None


def test_a_run_is_not_ended_by_a_change_of_the_code(bed: WorkerBed, queued: Jobs, project: Path) -> None:
    serve(bed, project)
    queued.submit("sh", "-c", "touch pids; while test -e pids; do sleep 0.1; done")
    pids = queued.folder / "1/runs/0" / "work/pids"
    wait_until(pids.exists, "the command has not begun")
    (project / "app.py").write_text(APP.replace("x + y", "x * y"))
    os.sync()
    with pytest.raises(AssertionError):
        wait_until(lambda: bed.log().count(" ready.") == 2, "as it has to be", limit_s=4)
    pids.unlink()
    assert [(row["state"], row["tries"]) for row in queued.wait("1")] == [("done", 1)]
    wait_until(lambda: bed.log().count(" ready.") == 2, bed.log())


def test_settings_of_a_project_stay_but_for_the_broker_and_what_a_worker_is() -> None:
    app = Celery("theirs", set_as_current=False)
    app.conf.update(
        broker_url="amqp://elsewhere", task_acks_late=False, worker_prefetch_multiplier=8, accept_content=["pickle"],
        broker_transport_options={"priority_steps": [1]},
    )  # fmt: skip
    settle(app, "amqp://a:b@c000")
    assert app.conf.broker_read_url == app.conf.broker_url == "amqp://a:b@c000"
    assert (app.conf.task_acks_late, app.conf.accept_content) == (False, ["pickle"])
    assert (app.conf.worker_prefetch_multiplier, app.conf.worker_pool) == (1, "prefork")
    assert app.conf.task_reject_on_worker_lost
    assert app.conf.broker_transport_options == {"priority_steps": [1], "confirm_publish": True}
    for url, seconds in (("redis://:b@c000/0", 365 * 24 * 3600), ("rediss://c000", 365 * 24 * 3600)):
        assert make_app(url).conf.broker_transport_options == {"visibility_timeout": seconds}
    app.conf.broker_transport_options = {"visibility_timeout": 60}
    settle(app, "redis://:b@c000/0")
    assert app.conf.broker_transport_options == {"visibility_timeout": 60}, (
        "only a project knows how long its tasks take"
    )


def test_a_project_can_import_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broker").touch(mode=0o600)
    (tmp_path / "broker").write_text("amqp://a:b@c000\n")
    monkeypatch.setattr(broker_file, "BROKER", tmp_path / "broker")
    namespace: dict[str, object] = {}
    exec(compile(Path(str(celeryconfig.__file__)).read_text(), "celeryconfig", "exec"), namespace)
    assert namespace["broker_url"] == "amqp://a:b@c000"
    assert namespace["task_acks_late"] is True


def test_only_python_outside_of_runs_and_environments_is_code(make: Callable[..., Path]) -> None:
    project = make({"a.py": "", "b/c.py": "", "data.csv": "", "runs/d.py": "", ".venv/e.py": "", "b/runs/f.py": ""})
    names = {os.path.relpath(path, project) for path, _, _ in sign_code(project)}
    assert names == {"a.py", "b/c.py", "b/runs/f.py"}
    before = sign_code(project)
    (project / "b/c.py").write_text("x = 1\n")
    assert sign_code(project) != before
