"""What `notify` of an order asks for: once, at the end, whatever the end, and without an effect on the job."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from gpuwork.jobs import notification
from tests.unit.gpuwork.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fakes.slurm_commands import SlurmCommands
    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

TELL = "sh -c 'cat >>told; echo $GPUPROV_JOB $GPUPROV_STATE $GPUPROV_NAME >>said'"
runs_for_real = pytest.mark.slow


def notified(jobs: Jobs, id_: str = "1") -> dict[str, Any]:
    """What came of it, once that is known."""

    def find() -> Any:
        return jobs("show", id_)["submissions"][0].get("notified")

    wait_until(lambda: (find() or {}).get("reason", notification._CUT_OFF) != notification._CUT_OFF, "nobody was told")
    found: dict[str, Any] = find()
    return found


class Hook:
    """A server that keeps what is posted to it, and answers with the status that the path names."""

    def __init__(self) -> None:
        self.posted: list[Any] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.posted.append((self.path, self.headers["Content-Type"], json.loads(body)))
                self.send_response(int(self.path[1:]))
                self.send_header("Location", "/200")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@runs_for_real
def test_a_command_is_run_once_when_the_last_of_all_runs_has_ended(jobs: Jobs) -> None:
    jobs.submit("sh", "-c", "sleep 0.3; exit $(({n} % 2))", count=4, name="sweep", notify=TELL)
    jobs.wait("1", code=1)
    assert notified(jobs)["ok"]
    told = json.loads((jobs.folder / "1/told").read_text())
    assert {key: told[key] for key in ("id", "name", "state", "runs", "failed", "cancelled")} == {
        "id": "1", "name": "sweep", "state": "failed", "runs": 4, "failed": 2, "cancelled": 0,
    }  # fmt: skip
    assert told["submitted"] <= told["ended"]
    notification.settle(jobs.folder, ["1"])  # as after a kill
    assert (jobs.folder / "1/said").read_text() == "1 failed sweep\n"
    assert jobs("show", "1")["submissions"][0]["order"]["notify"] == TELL


@runs_for_real
def test_of_many_that_find_the_end_at_once_one_tells(jobs: Jobs) -> None:
    jobs.submit("true", notify="true")
    assert notified(jobs)["ok"]
    (jobs.folder / "1/notified.json").unlink()
    order = json.loads((jobs.folder / "1/order.json").read_text())
    (jobs.folder / "1/order.json").write_text(json.dumps({**order, "notify": TELL}))
    threads = [threading.Thread(target=notification.settle, args=(jobs.folder, ["1"])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (jobs.folder / "1/said").read_text() == "1 done true\n"


@runs_for_real
def test_a_webhook_gets_the_document_and_no_redirect_is_followed(jobs: Jobs, hook: Hook) -> None:
    for number, status in enumerate((200, 302, 500), 1):
        jobs.submit("true", notify=f"{hook.url}/{status}")
        assert [row["state"] for row in jobs.wait(str(number))] == ["done"]
    outcomes = [(told["ok"], told["reason"]) for told in (notified(jobs, str(number)) for number in (1, 2, 3))]
    assert outcomes == [
        (True, None),
        (False, "the answer was 302 Found"),
        (False, "the answer was 500 Internal Server Error"),
    ]
    assert sorted((path, kind, told["id"]) for path, kind, told in hook.posted) == [
        ("/200", "application/json", "1"), ("/302", "application/json", "2"), ("/500", "application/json", "3"),
    ]  # fmt: skip
    jobs.submit("true", notify="http://127.0.0.1:9/")
    assert notified(jobs, "4")["reason"] == "no answer: [Errno 111] Connection refused"


@runs_for_real
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("sleep 600", "it had not ended after 0.5 s"),
        ("sh -c 'sleep 600 & wait'", "it had not ended after 0.5 s"),
        ("sh -c 'setsid sleep 5 &'", "it had not ended after 0.5 s"),
        ("yes", "it printed more than 65,536 bytes"),
        ("sh -c 'echo no luck; exit 3'", "exit status 3: no luck"),
        ("no-such-program", "[Errno 2] No such file or directory: 'no-such-program'"),
    ],
)
def test_one_that_fails_or_hangs_is_ended_and_changes_nothing(
    held: Jobs, monkeypatch: pytest.MonkeyPatch, command: str, reason: str
) -> None:
    held.submit("true", notify=command)
    with monkeypatch.context() as nobody:
        nobody.setattr(notification, "find_settled", lambda *_: [])
        held("cancel", "1")
    monkeypatch.setattr(notification, "COMMAND_S", 0.5)
    began = time.monotonic()
    notification.settle(held.folder, ["1"])
    assert time.monotonic() - began < 4
    assert notified(held) == {"at": notified(held)["at"], "ok": False, "reason": reason}


def test_one_that_was_cut_off_is_not_repeated(held: Jobs) -> None:
    folder = held.submitted("true", notify="true")
    (folder / "notified.json").write_text(
        json.dumps({"at": "2026-01-01T00:00:00Z", "ok": False, "reason": notification._CUT_OFF})
    )
    held("cancel", "1")
    notification.settle(held.folder, ["1"])
    assert held("show", "1")["submissions"][0]["notified"]["reason"] == notification._CUT_OFF
    (folder / "notified.json").write_text("what a job put there")
    assert "notified" not in held("show", "1")["submissions"][0]


@runs_for_real
def test_what_is_cancelled_and_what_never_begins_is_told_too(jobs: Jobs, slurm: SlurmCommands) -> None:
    slurm.hold()
    jobs.submit("true", count=2, notify=TELL)
    jobs.submit("true", after=["1"], notify=TELL)
    jobs("cancel", "1.0")
    notification.settle(jobs.folder, ["1"])
    assert not (jobs.folder / "1/notified.json").exists(), "a run of it waits still"
    jobs("cancel", "1")
    assert notified(jobs, "1")["ok"]
    assert notified(jobs, "2")["ok"]
    assert [(jobs.folder / id_ / "said").read_text() for id_ in "12"] == ["1 cancelled true\n", "2 cancelled true\n"]


@runs_for_real
def test_workers_tell_too(bed: WorkerBed, queued: Jobs) -> None:
    bed.start()
    queued.submit("true", count=2, notify=TELL)
    queued.wait("1")
    assert notified(queued)["ok"]
    assert (queued.folder / "1/said").read_text() == "1 done true\n"


@pytest.mark.parametrize(
    "value",
    ["", " ", "''", "x" * 1001, "a\nb", "sh -c 'x", "http://", "https:///x", "http://ho st/", "http://h:x/", "http://[/",
     "http://ada:key@host/", "https://h\u00e4/", 7],
)  # fmt: skip
def test_nonsense_is_refused_before_anything_is_written(held: Jobs, value: object) -> None:
    assert "notify" in held.submit("true", notify=value, code=2)["error"]["evidence"]
    assert not held.folder.exists()
