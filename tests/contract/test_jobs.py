from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import LABEL_ROLE, ROLE_JOB, File, JobTerms
from gpuprov.drivers.capabilities import NotCapable
from tests.contract.engines import Bench, refused

if TYPE_CHECKING:
    from gpuprov.drivers.base import JobState, NodeRequest, Stream


class Heard:
    """What a job wrote, and whether it started."""

    def __init__(self) -> None:
        self.started = 0
        self.streams: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}

    def start(self) -> None:
        self.started += 1

    def write(self, stream: Stream, content: bytes) -> None:
        self.streams[stream] += content


@pytest.fixture
def heard(bench: Bench) -> Heard:
    bench.need("jobs")
    return Heard()


def run(bench: Bench, request: NodeRequest, line: str, heard: Heard) -> int:
    return bench.driver.run_job(request, ["sh", "-c", line], started=heard.start, write=heard.write)


def test_an_engine_without_jobs_says_so(bench: Bench) -> None:
    if "jobs" in bench.driver.capabilities:
        pytest.skip(f"{bench.driver.name} has jobs")
    request = bench.request()
    with refused(NotCapable):
        run(bench, request, "true", Heard())
    assert bench.status(request.name) == "absent"


def test_a_job_s_streams_and_status_are_its_own_and_its_node_goes(bench: Bench, heard: Heard) -> None:
    request = bench.request(environment={"GPT": "a=b ü"})
    assert run(bench, request, "echo out $GPT; echo err >&2; exit 3", heard) == 3
    assert heard.streams == {"stdout": "out a=b ü\n".encode(), "stderr": b"err\n"}
    assert heard.started == 1
    assert bench.status(request.name) == "absent"


def test_a_job_is_a_node_while_it_runs(bench: Bench) -> None:
    bench.need("jobs")
    request = bench.request()
    seen = []
    bench.driver.run_job(
        request,
        ["sh", "-c", "sleep 0.2"],
        started=lambda: seen.append(bench.driver.find_node(request.name)),
        write=lambda _stream, _content: None,
    )
    state = seen[0]
    assert state
    assert state.status == "running"
    assert state.complete
    assert dict(state.labels) == dict(request.labels)


def test_a_job_finds_its_files(bench: Bench, heard: Heard) -> None:
    if not bench.real:
        pytest.skip("nodes of the fake have no file system")
    assert run(bench, bench.request(files=(File(path="/opt/in", content=b"here"),)), "cat /opt/in", heard) == 0
    assert heard.streams["stdout"] == b"here"


def test_a_job_that_is_interrupted_goes(bench: Bench) -> None:
    bench.need("jobs")
    request = bench.request()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.driver.run_job(request, ["sleep", "60"], started=interrupt, write=lambda _stream, _content: None)
    assert bench.status(request.name) == "absent"


def test_a_job_s_name_is_taken(bench: Bench, node: str, heard: Heard) -> None:
    with refused(EngineError):
        run(bench, bench.request(name=node), "true", heard)
    assert bench.status(node) == "running"
    assert not heard.started


def test_a_job_of_an_unknown_image(bench: Bench, heard: Heard) -> None:
    request = bench.request(image="image:" + "0" * 64)
    with refused(EngineError):
        run(bench, request, "true", heard)
    assert bench.status(request.name) == "absent"
    assert not heard.started


def detached(bench: Bench, line: str) -> str:
    """The name of a job that goes on by itself."""
    bench.need("jobs")
    request = bench.request()
    labels = {**request.labels, LABEL_ROLE: ROLE_JOB}
    request = replace(request, labels=labels, terms=JobTerms(detached=True))
    bench.driver.begin_job(request, ["sh", "-c", line])
    return request.name


def state_of(bench: Bench, name: str) -> JobState:
    (found,) = (job for job in bench.driver.list_jobs() if job.node.name == name)
    return found


def test_a_detached_job_goes_on_by_itself_and_is_listed(bench: Bench) -> None:
    name = detached(bench, "sleep 60")
    job = state_of(bench, name)
    assert (job.state, job.exit_code) == ("running", None)
    assert "sleep 60" in job.command
    assert job.node.labels[LABEL_ROLE] == ROLE_JOB
    bench.driver.stop_node(name)
    assert state_of(bench, name).state == "exited"
    bench.driver.delete_node(name)
    assert name not in [one.node.name for one in bench.driver.list_jobs()]


def test_when_a_job_ran_is_known_also_when_it_is_gone(bench: Bench) -> None:
    name = detached(bench, "sleep 60")
    (times,) = bench.driver.read_job_times([name])
    assert (times.name, times.there, times.running, times.labels[LABEL_ROLE]) == (name, True, True, ROLE_JOB)
    assert {begins for _, begins in times.marks} == {True}
    bench.driver.stop_node(name)
    (ended,) = bench.driver.read_job_times([name])
    assert (ended.id, ended.there, ended.running) == (times.id, True, False)
    assert {begins for _, begins in ended.marks} == {True, False}
    bench.driver.delete_node(name)
    gone = {one.id: one for one in bench.driver.read_job_times()}[times.id]
    assert (gone.name, gone.there, gone.running) == (name, False, False)
    assert gone.labels == times.labels
    assert {begins for _, begins in gone.marks} == {True, False}


def test_what_a_detached_job_has_written_is_read_afterwards(bench: Bench, heard: Heard) -> None:
    if not bench.real:
        pytest.skip("jobs of the fake print a line of its own")
    name = detached(bench, "echo one; echo two; echo three >&2; exit 4")
    bench.driver.read_job_log(name, follow=True, tail=None, write=heard.write)
    assert heard.streams == {"stdout": b"one\ntwo\n", "stderr": b"three\n"}
    last = Heard()
    bench.driver.read_job_log(name, follow=False, tail=1, write=last.write)
    assert sum(map(len, last.streams.values())) < sum(map(len, heard.streams.values()))
    job = state_of(bench, name)
    assert (job.state, job.exit_code) == ("exited", 4)


def test_a_held_job_does_not_run_yet(bench: Bench) -> None:
    bench.need("jobs")
    request = bench.request()
    argv = bench.driver.hold_job(request, ["sh", "-c", "echo ran; exit 5"])
    assert bench.status(request.name) != "running"
    assert request.name in argv
    if bench.real:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stdout) == (5, "ran\n")


def test_an_engine_without_jobs_has_none(bench: Bench) -> None:
    if "jobs" in bench.driver.capabilities:
        pytest.skip(f"{bench.driver.name} has jobs")
    assert bench.driver.list_jobs() == []
    assert bench.driver.read_job_times() == []
    request = bench.request()
    for act in (
        lambda: bench.driver.begin_job(request, ["true"]),
        lambda: bench.driver.hold_job(request, ["true"]),
        lambda: bench.driver.read_job_log("x", follow=False, tail=None, write=Heard().write),
    ):
        with refused(NotCapable):
            act()
    assert bench.status(request.name) == "absent"
