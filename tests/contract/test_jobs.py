from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import File
from gpuprov.drivers.capabilities import NotCapable
from tests.contract.engines import Bench, refused

if TYPE_CHECKING:
    from gpuprov.drivers.base import NodeRequest, Stream


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
