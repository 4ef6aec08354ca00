"""A node that is held: its workers go on with what they have, and begin nothing else until it is let go."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from celery.exceptions import Reject

from gpuwork.jobs.one import EXIT_STOPPED
from gpuwork.jobs.store import HELD
from gpuwork.worker.runs import LeashedRuns
from gpuwork.worker.tasks import make_run
from tests.fakes.brokerfolder import count_messages
from tests.unit.gpuwork.conftest import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow  # real workers, and what they wait for

APP = """\
from celery import Celery
app = Celery("app")
app.config_from_object("gpuwork.celeryconfig")
@app.task(name="app.note")
def note(path):
    open(path, "w").close()
"""


@pytest.fixture
def held(bed: WorkerBed) -> Path:
    """The file that holds this node; it is there."""
    file = bed.jobs / HELD / os.uname().nodename
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def test_no_run_begins_where_the_node_is_held(bed: WorkerBed, queued: Jobs, held: Path) -> None:
    queued.submit("true")
    runs = LeashedRuns(bed.jobs, mark="w")
    assert runs.make("1", 0) == EXIT_STOPPED
    with pytest.raises(Reject) as caught:
        make_run(bed.app(), runs, "1", 0)
    assert caught.value.requeue
    (row,) = queued.rows()
    assert (row["state"], row["tries"]) == ("waiting", 0)
    held.unlink()
    assert runs.make("1", 0) == 0


def test_a_worker_ends_what_it_has_and_takes_no_more_until_it_may(bed: WorkerBed, queued: Jobs, held: Path) -> None:
    held.unlink()
    bed.start()
    queued.submit("sh", "-c", "touch here; while test -e here; do sleep 0.1; done")
    here = queued.folder / "1/runs/0/work/here"
    wait_until(here.exists, "it has not begun")
    held.touch()
    queued.submit("true", count=3)
    here.unlink()
    assert [row["state"] for row in queued.wait("1")] == ["done"]
    wait_until(lambda: "no work is taken" in bed.log(), bed.log())
    wait_until(lambda: count_messages(bed.broker, "gpuwork") == (3, 0), "all wait in the queue, for others")
    assert {(row["state"], row["tries"]) for row in queued.rows("2")} == {("waiting", 0)}
    assert len(queued("workers", "--expect", "1")["workers"]) == 1, "it answers"
    held.unlink()
    assert {row["state"] for row in queued.wait("2")} == {"done"}


def test_a_worker_that_starts_while_the_node_is_held_leaves_tasks_of_users_alone_too(
    bed: WorkerBed, queued: Jobs, held: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "app.py").write_text(APP)
    bed.start("GPU-0001", "--project", str(project), "--app", "app")
    wait_until(lambda: "no work is taken" in bed.log(), bed.log())
    queued.submit("true")
    bed.app().send_task("app.note", (str(tmp_path / "noted"),), queue="celery", ignore_result=True)
    (bed.broker / "down").touch()
    wait_until(lambda: "Connection to broker lost" in bed.log(), bed.log())
    (bed.broker / "down").unlink()
    wait_until(lambda: bed.log().count("Connected to") >= 2, bed.log())
    assert len(queued("workers", "--expect", "1")["workers"]) == 1
    assert not (tmp_path / "noted").exists()
    assert [row["tries"] for row in queued.rows()] == [0]
    held.unlink()
    assert [row["state"] for row in queued.wait("1")] == ["done"]
    wait_until((tmp_path / "noted").exists, bed.log())
