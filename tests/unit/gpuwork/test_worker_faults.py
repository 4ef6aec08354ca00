"""What a worker is sent, told and denied; it answers, and goes on."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from celery.exceptions import Reject

from gpuwork.broker import QUEUE, ask_workers, hide_password, make_app, ping_workers
from gpuwork.broker_file import read_broker
from gpuwork.errors import BrokerError
from gpuwork.jobs.one import EXIT_STOPPED
from gpuwork.jobs.store import read_submission
from gpuwork.jobs.workers import take_next
from gpuwork.machine import describe_machine
from gpuwork.worker.keeper import Keeper
from gpuwork.worker.run_end import JobCancelled, JobFailed
from gpuwork.worker.runs import LeashedRuns
from gpuwork.worker.tasks import call_function, make_run
from tests.fakes.brokerfolder import count_messages
from tests.fakes.worker_bed import PASSWORD, ROOT
from tests.unit.gpuwork.conftest import wait_until

if TYPE_CHECKING:
    from typing_extensions import Self

    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow  # real workers, and what they wait for

ONE = "GPU-0001"


def test_garbage_in_the_queue_neither_ends_a_worker_nor_blocks_it(bed: WorkerBed, queued: Jobs) -> None:
    worker, app = bed.start(), bed.app()

    def send(body: Any, **options: Any) -> None:
        with app.producer_pool.acquire() as producer:
            producer.publish(body, exchange="", routing_key=QUEUE, **options)

    send("no task", content_type="text/plain", content_encoding="utf-8")
    send(b"\x00\xff" * 100, content_type="application/octet-stream", content_encoding="binary")
    send({"neither": "task"}, serializer="json")
    send(b"cos\nsystem\n(S'touch pwned'\ntR.", content_type="application/x-python-serialize", content_encoding="binary",
         headers={"task": "gpuwork.run", "id": "1", "lang": "py"})  # fmt: skip
    send(b"{", content_type="application/json", content_encoding="utf-8",
         headers={"task": "gpuwork.run", "id": "2", "lang": "py"})  # fmt: skip
    for name, arguments in (
        ("no.such.task", ()),
        ("gpuwork.run", ()),
        ("gpuwork.run", ("../../etc", 0)),
        ("gpuwork.run", ("1", "0; reboot")),
        ("gpuwork.run", ("1", 10**30)),
        ("gpuwork.run", ("x" * 20_000_000, 0)),
        ("gpuwork.run", ("99", 0)),
        ("gpuwork.call", ("os:abort",)),
    ):
        app.send_task(name, arguments, queue=QUEUE, ignore_result=True)
    queued.submit("echo", "good")
    assert queued.wait("1")[0]["state"] == "done"
    wait_until(lambda: count_messages(bed.broker, QUEUE) == (0, 0), "a message is left")
    assert worker.poll() is None
    assert bed.log().count(" ready.") == 1
    assert not Path("pwned").exists()


def test_a_run_whose_folder_vanished_is_dropped(bed: WorkerBed, queued: Jobs) -> None:
    queued.submit("true")
    shutil.rmtree(queued.folder / "1")
    queued.submit("true")
    bed.start()
    assert queued.wait("1")[0]["state"] == "done", "the number is free again"
    wait_until(lambda: count_messages(bed.broker, QUEUE) == (0, 0), "a message is left")


def test_a_worker_whose_disk_is_full_tries_again_when_there_is_room(bed: WorkerBed, queued: Jobs) -> None:
    worker = bed.start()
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    pids = [worker.pid, *map(int, Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split())]
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (10, most))  # no file larger than this
    queued.submit("echo", "good")
    wait_until((queued.folder / "1/runs/0/.lock").exists, "the run was not looked at")
    wait_until(lambda: count_messages(bed.broker, QUEUE) == (0, 0), "the message is not dropped")
    assert (worker.poll(), queued.rows()[0]["state"]) == (None, "waiting")
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
    assert queued.wait("1")[0]["state"] == "done"


@pytest.mark.parametrize("place", ["gpuwork.jobs.submit.write_file", "gpuwork.jobs.workers.write_file"])
def test_a_disk_that_is_full_submits_nothing(
    bed: WorkerBed, queued: Jobs, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(place, full)
    error = queued.submit("true", count=3, at_most=2, code=3)["error"]
    assert error["what"] == "the jobs cannot be written; nothing was submitted"
    assert queued.rows() == []
    assert count_messages(bed.broker, QUEUE) == (0, 0)


def test_what_a_worker_cannot_do_is_told_with_everything_else(queued: Jobs) -> None:
    error = queued.submit("true", gpus=2, memory_bytes=2**30, retries=-1, code=2)["error"]
    assert error["evidence"].splitlines() == [
        "order: retries: is -1 (allowed: 0 to 100)",
        "order: gpus: is 2, but a worker has one GPU (allowed: 0 or 1)",
        "order: memory_bytes: is given, but workers do not limit memory",
    ]


def test_the_password_of_the_broker_is_nowhere(bed: WorkerBed, queued: Jobs) -> None:
    worker = bed.start()
    (bed.broker / "down").touch()
    said = str(queued.submit("true", code=4))
    wait_until(lambda: "Cannot connect" in bed.log() or "Trying again" in bed.log(), bed.log())
    seen = [Path(f"/proc/{worker.pid}/{name}").read_bytes().decode() for name in ("cmdline", "environ")]
    for text in (said, bed.said(), *seen):
        assert PASSWORD not in text
    assert hide_password(f"x amqp://gpuwork:{PASSWORD}@c000:5672// y") == "x amqp://...@c000:5672// y"


@pytest.mark.parametrize("content", [None, "", "no url", "amqp://a\namqp://b", "amqp://" + "x" * 5000])
def test_a_broker_that_is_not_known_is_told(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "url").write_text(content)
    with pytest.raises(BrokerError) as caught:
        read_broker(tmp_path / "url")
    assert content is None or not content or content not in caught.value.evidence


def test_a_password_that_everybody_can_read_is_refused(bed: WorkerBed) -> None:
    bed.url_file.chmod(0o644)
    with pytest.raises(BrokerError, match="is not protected"):
        read_broker(bed.url_file)
    bed.url_file.chmod(0o640)
    assert read_broker(bed.url_file).startswith("folder://")


def test_a_url_of_a_kind_that_is_not_known_ends_a_worker_in_words(bed: WorkerBed) -> None:
    bed.url_file.write_text(f"carrier-pigeon://a:{PASSWORD}@b")
    assert bed.start(wait=False).wait(30) == 4
    assert bed.said().startswith("error: the broker of the workers does not answer\n")
    assert PASSWORD not in bed.said()


@pytest.mark.parametrize("module", ["gpuwork.worker", "gpuwork.jobs"])
def test_without_celery_there_is_an_error(bed: WorkerBed, tmp_path: Path, module: str) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without/celery.py").write_text("raise ImportError('no celery here')\n")
    verb = ["--gpu", ONE, "--log", "log"] if module == "gpuwork.worker" else ["--broker", str(bed.url_file), "workers"]
    done = subprocess.run(
        [sys.executable, "-m", module, *verb],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}/without:{ROOT}"}, capture_output=True, text=True, check=False,
        cwd=tmp_path,
    )  # fmt: skip
    assert "Celery cannot be imported" in done.stdout + done.stderr
    assert "no celery here" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode


def test_a_hangup_changes_nothing(bed: WorkerBed, queued: Jobs) -> None:
    worker = bed.start()
    worker.send_signal(signal.SIGHUP)
    queued.submit("true")
    assert queued.wait("1")[0]["state"] == "done"
    assert worker.poll() is None


def test_a_gpu_has_one_worker(bed: WorkerBed) -> None:
    bed.start()
    assert bed.start(wait=False).wait(30) == 75
    assert "error: another worker has this GPU" in bed.said()


@pytest.mark.parametrize("argv", [["--gpu", "0"], ["--gpu", ONE, "--app", "app"], ["--gpu", ONE, "--app", "a b"]])
def test_arguments_that_are_none(argv: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpuwork.worker", "--log", "/nowhere", *argv], capture_output=True, check=False
    )
    assert done.returncode == 2


def test_each_worker_answers_while_it_is_busy_and_says_what_it_has(bed: WorkerBed, queued: Jobs) -> None:
    worker, app = bed.start(), bed.app()
    told = app.send_task("gpuwork.stats", queue=QUEUE).get(timeout=30)
    assert told["node"] == os.uname().nodename
    assert 0 < told["memory"]["available_bytes"] <= told["memory"]["total_bytes"]
    assert (told["gpus"], bool(told["reason"])) == ([], True)
    assert app.send_task("gpuwork.ping", queue=QUEUE).get(timeout=30) == {
        "node": os.uname().nodename, "pid": worker.pid, "gpu": ONE,
    }  # fmt: skip
    node = os.uname().nodename
    row = {"name": f"{ONE}@{node}", "node": node, "pid": worker.pid, "gpu": ONE}
    assert queued("workers")["workers"] == [{**row, "busy": False, "task_gpu": ONE}]
    assert queued("workers", "--expect", "1")["workers"] == [{**row, "busy": False, "task_gpu": None}]
    queued.submit("sleep", "600")
    queued.submit("true", count=3)
    wait_until(lambda: [row["state"] for row in queued.rows("1")] == ["running"], "it has not begun")
    assert app.control.ping(timeout=5, limit=1) == [{f"{ONE}@{node}": {"ok": "pong"}}]
    told = queued("workers", "--expect", "1")
    assert (told["waiting"], told["workers"]) == (3, [{**row, "busy": True, "task_gpu": None}])


def test_a_broker_that_is_late_is_found_soon(bed: WorkerBed) -> None:
    (bed.broker / "down").touch()
    bed.start(wait=False)
    wait_until(lambda: "Cannot connect" in bed.log(), bed.said())
    time.sleep(7)
    (bed.broker / "down").unlink()
    wait_until(lambda: " ready." in bed.log(), bed.said(), limit_s=3.5)  # Celery's pause would be 6 s by now


def test_a_ping_is_for_one_worker_alone(bed: WorkerBed) -> None:
    node = os.uname().nodename
    names = [f"{gpu}@{node}" for gpu in (ONE, "GPU-0002", "GPU-0003")]
    for gpu in (ONE, "GPU-0002"):
        bed.start(gpu)
    for _ in range(5):
        assert ping_workers(bed.app(), names, limit_s=2) == dict(zip(names, [ONE, "GPU-0002", None], strict=True))


def test_workers_that_do_not_answer_are_not_listed(queued: Jobs, bed: WorkerBed) -> None:
    assert queued("workers", "--within", "1")["workers"] == []
    (bed.broker / "down").touch()
    assert "the broker is unreachable" in queued("workers", code=4)["error"]["evidence"]
    bed.url_file.unlink()
    assert (
        queued("workers", code=2)["error"]["what"] == "the jobs of this cluster run under Slurm: there are no workers"
    )


def test_a_broker_that_comes_back_is_asked_at_once(bed: WorkerBed) -> None:
    bed.start(ONE)
    wait_until(lambda: " ready." in bed.log(), bed.said())
    (bed.broker / "down").touch()
    threading.Timer(0.5, (bed.broker / "down").unlink).start()
    began = time.monotonic()
    assert len(ask_workers(bed.app(), limit_s=30, expected=1)) == 1
    assert time.monotonic() - began < 10  # Celery would look again after 2 and after 4 s, and one that is late never


def test_a_worker_that_connects_after_the_question_is_asked_again(bed: WorkerBed) -> None:
    timer = threading.Timer(0.5, bed.start, (ONE,))
    timer.start()
    assert len(ask_workers(bed.app(), limit_s=60, expected=1)) == 1
    timer.join()


class Answers(list[dict[str, object]]):
    """A Celery app of which a worker says something, and whose broker tells how many there are."""

    consumer_count = 1
    asked = 0

    def __getattr__(self, name: str) -> Answers:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> Answers:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def __getitem__(self, _name: Any) -> Any:
        return self

    def broadcast(self, *_: object, limit: int, **__: object) -> Answers:
        self.asked += 1
        assert limit == self.consumer_count
        return self


def test_a_worker_that_talks_nonsense_is_told() -> None:
    said = {"name": "x\x1b[31m", "node": 1, "pid": 1, "gpu": "", "busy": False}
    with pytest.raises(BrokerError, match="the answer of a worker cannot be read"):
        ask_workers(cast("Any", Answers([{"w": said}])), limit_s=1, expected=None)


def test_as_many_answers_as_the_broker_has_workers_are_all() -> None:
    app = Answers([{"w": {"name": "w", "node": "c000", "pid": 1, "gpu": ONE, "busy": False}}])
    assert [one.name for one in ask_workers(cast("Any", app), limit_s=60, expected=None)] == ["w"]
    assert app.asked == 1


def test_a_gpu_that_nvml_has_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    pynvml = pytest.importorskip("pynvml")

    class Memory:
        total, used = 80, 8

    for name, value in (
        ("nvmlInit", None), ("nvmlShutdown", None), ("nvmlDeviceGetHandleByUUID", 1), ("nvmlDeviceGetName", "H100"),
        ("nvmlDeviceGetMemoryInfo", Memory),
    ):  # fmt: skip
        monkeypatch.setattr(pynvml, name, lambda *_, value=value: value)
    told = describe_machine(ONE)
    assert told["gpus"] == [{"uuid": ONE, "name": "H100", "memory_bytes": 80, "memory_used_bytes": 8}]
    assert told["reason"] is None


def test_a_function_is_called_only_of_a_project(tmp_path: Path) -> None:
    assert call_function(tmp_path, "posixpath:join", {"a": "x"}) == "x"
    for project, function, arguments in ((None, "os:getpid", {}), (tmp_path, "os", {}), (tmp_path, "os:getpid", [1])):
        with pytest.raises(ValueError, match=r"project|MODULE"):
            call_function(project, function, arguments)


def test_a_task_ends_as_its_job_did(bed: WorkerBed, queued: Jobs) -> None:
    queued.submit("sh", "-c", "echo no such model >&2; exit {n}", count=3)
    queued("cancel", "1.2")
    runs = LeashedRuns(bed.jobs, mark="w")
    assert make_run(bed.app(), runs, "1", 0) == "done"
    for _ in range(2):  # a message that is delivered again tells the same
        with pytest.raises(JobFailed, match=r"^job 1\.1 failed: .*no such model"):
            make_run(bed.app(), runs, "1", 1)
    with pytest.raises(JobCancelled, match=r"^job 1\.2 was cancelled"):
        make_run(bed.app(), runs, "1", 2)
    with pytest.raises(JobFailed, match="job 99"):
        make_run(bed.app(), runs, "99", 0)


def test_a_task_whose_job_failed_is_told_as_failed_and_not_tried_again(bed: WorkerBed, queued: Jobs) -> None:
    bed.start()
    queued.submit("sh", "-c", "exit 3")
    assert [(row["state"], row["tries"]) for row in queued.wait("1", code=1)] == [("failed", 1)]
    wait_until(lambda: "raised expected: JobFailed('job 1 failed: " in bed.log(), bed.log())
    wait_until(lambda: count_messages(bed.broker, QUEUE) == (0, 0), "a message is left")
    assert "Traceback" not in bed.log()


def test_a_worker_that_ends_begins_no_run(bed: WorkerBed, queued: Jobs) -> None:
    queued.submit("true")
    runs = LeashedRuns(bed.jobs, mark="w")
    runs.stop()
    assert runs.make("1", 0) == EXIT_STOPPED
    with pytest.raises(Reject) as caught:
        make_run(bed.app(), runs, "1", 0)
    assert caught.value.requeue
    assert not (queued.folder / "1/runs/0").exists()


def test_the_keeper_hands_in_what_waits_and_nothing_else(bed: WorkerBed, queued: Jobs) -> None:
    queued.submit("sh", "-c", "exit {n}", count=4)
    queued.submit("true", count=9, at_most=3)
    keeper = Keeper(bed.app(), bed.jobs, begun=lambda: 0, is_busy=lambda: False)
    assert keeper.look() == [], "the queue is not empty"
    bed.lose_messages()
    queued("cancel", "1.2")
    runs = LeashedRuns(bed.jobs, mark="w")
    assert [runs.make("1", number) for number in (0, 1)] == [0, 1]
    assert keeper.look() == [("1", [3]), ("2", [0, 1, 2])]
    assert count_messages(bed.broker, QUEUE) == (4, 0)
    bed.lose_messages()
    queued("cancel", "2")
    runs.make("1", 3)
    assert keeper.look() == []


def test_a_cancelled_submission_costs_no_processes(bed: WorkerBed, queued: Jobs) -> None:
    queued.submit("touch", "begun", count=200)
    queued.submit("touch", "begun", count=9, at_most=2)
    queued("cancel", "1", "2")
    bed.start()
    wait_until(lambda: count_messages(bed.broker, QUEUE) == (0, 0), "messages are left", limit_s=90)
    assert {row["state"] for row in queued.rows()} == {"cancelled"}
    assert [*queued.folder.glob("*/runs/*")] == []


def test_what_slurm_has_is_not_the_keepers(bed: WorkerBed, queued: Jobs) -> None:
    folder = queued.submitted("true", count=3)
    bed.lose_messages()
    told = json.loads((folder / "submitted.json").read_text())
    told.update(system="slurm", chunks=[{"slurm": 7, "first": 0, "size": 3}])
    (folder / "submitted.json").write_text(json.dumps(told))
    keeper = Keeper(bed.app(), bed.jobs, begun=lambda: 0, is_busy=lambda: False)
    assert keeper.look() == []
    reason = "it is no longer queued, and how it ended was not recorded: it was submitted to slurm"
    assert {(row["state"], row["reason"]) for row in queued.rows()} == {("lost", reason)}


def test_the_next_run_is_handed_out_once(queued: Jobs) -> None:
    folder = queued.submitted("true", count=4, at_most=2)
    assert [take_next(read_submission(folder)) for _ in range(4)] == [2, 3, None, None]
    (folder / "next").write_text("garbage")
    assert take_next(read_submission(folder)) is None


def test_the_settings_are_those_that_long_tasks_need(bed: WorkerBed) -> None:
    conf = make_app(read_broker(bed.url_file)).conf
    assert (conf.task_acks_late, conf.task_reject_on_worker_lost, conf.worker_prefetch_multiplier) == (True, True, 1)
    assert (conf.worker_pool, conf.worker_concurrency, conf.accept_content) == ("prefork", 1, ["json"])


@pytest.mark.parametrize("is_away", [False, True])
def test_a_stopped_worker_leaves_no_process(bed: WorkerBed, queued: Jobs, is_away: bool) -> None:
    worker = bed.start()
    queued.submit("sh", "-c", "setsid sleep 600 & touch pids; sleep 600")
    wait_until((queued.folder / "1/runs/0" / "work/pids").exists, "the command has not begun")
    if is_away:
        (bed.broker / "down").touch()
        wait_until(lambda: "Trying again" in bed.log(), bed.log())
    worker.send_signal(signal.SIGTERM)
    worker.wait(20)
    run = f"GPUWORK_RUN={queued.folder}/1/runs/0".encode()
    left = [path for path in Path("/proc").glob("[0-9]*/environ") if run in _read(path)]
    assert left == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
