"""An old master finds a worker: the test plays the master, with dramatiq's own messages, in its memory broker."""

from __future__ import annotations

import importlib.util
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpuwork.anneal.cli import main
from gpuwork.anneal.predecessor.worker import ACTORS, declare_actors, read_environment
from gpuwork.errors import Refused
from tests.unit.gpuwork.anneal.conftest import LINE, anneal, changed

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDED = ("dramatiq", "msgpack", "msgpack_numpy")
there = all(importlib.util.find_spec(name) for name in NEEDED)
needs_dramatiq = pytest.mark.skipif(not there and "CI" not in os.environ, reason="dramatiq is an optional extra")
ENVIRONMENT = {"WORKER_QUEUE_ID": "worker-7", "REDIS_HOST": "10.0.0.1", "REDIS_PORT": "6380", "REDIS_PWD": "secret"}


def test_the_environment_is_the_predecessors() -> None:
    found = read_environment(ENVIRONMENT)
    assert (found.queue, found.host, found.port, found.password) == ("worker-7", "10.0.0.1", 6380, "secret")
    assert "secret" not in repr(found)


def test_a_broker_without_a_password_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Refused) as caught:
        read_environment({"REDIS_PORT": "0", "WORKER_QUEUE_ID": "a b"})
    assert len(caught.value.evidence.splitlines()) == 3, "all at once"
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    assert main(["worker"]) == 2
    assert "REDIS_PWD is missing" in capsys.readouterr().err


class Master:
    """Sends messages as dramatiq of whatever version has them, and waits for their results."""

    def __init__(self) -> None:
        import dramatiq
        from dramatiq.brokers.stub import StubBroker
        from dramatiq.results import Results
        from dramatiq.results.backends import StubBackend

        from gpuwork.anneal.predecessor.encoding import MessagePack
        from gpuwork.anneal.predecessor.service import Service

        self._before = dramatiq.get_encoder()
        dramatiq.set_encoder(MessagePack())
        self._dramatiq = dramatiq
        self.broker = StubBroker()
        self.backend = StubBackend(encoder=MessagePack())
        self.broker.add_middleware(Results(backend=self.backend))
        self.broker.emit_after("process_boot")
        self.service = Service()
        declare_actors(self.broker, self.service, "worker-7")
        self.worker = dramatiq.Worker(self.broker, queues={"worker-7"}, worker_threads=4, worker_timeout=50)
        self.worker.start()

    def send(self, actor: str, *arguments: object) -> Any:
        message = self._dramatiq.Message(queue_name="worker-7", actor_name=actor, args=arguments, kwargs={}, options={})
        return self.broker.enqueue(message)

    def ask(self, actor: str, *arguments: object) -> Any:
        return self.send(actor, *arguments).get_result(backend=self.backend, block=True, timeout=60_000)

    def end(self) -> None:
        self.service.stop.set()
        self.worker.stop()
        self.broker.close()
        self._dramatiq.set_encoder(self._before)


@pytest.fixture
def master(simulated: None) -> Iterator[Master]:  # noqa: ARG001
    made = Master()
    yield made
    made.end()


@pytest.mark.slow
@needs_dramatiq
def test_a_master_deploys_a_model_and_gets_arrays(master: Master) -> None:
    assert sorted(master.broker.actors) == sorted(ACTORS)
    assert master.ask("ping") == "pong"
    stats = master.ask("stats")
    assert stats["cpus"] >= 1
    assert stats["memory"]["total_bytes"] > 0
    assert "gpus" in stats
    early = master.ask("run", {"max_steps": 5})
    assert (early["values"], early["states"]) == ([], [])
    assert early["failure"]["message"] == "no model was deployed; send one by deploy_model first"
    assert master.ask("deploy_model", {"source": LINE, "precision": "float64"}) == {"failure": None}
    found = master.ask("run", {"max_steps": 40, "initial_temp": 1, "thread_count": 5, "random_seed": -919})
    assert found["failure"] is None
    whole = anneal(max_steps=40, thread_count=5, random_seed=-919, precision="float64").chains
    assert found["values"].tobytes() == whole.values.tobytes()
    assert (found["states"].shape, found["states"].dtype) == ((5, 2), np.float64)
    assert found["states"].tobytes() == whole.states.tobytes()


@pytest.mark.slow
@needs_dramatiq
def test_failures_have_their_three_parts_and_both_arrays_empty(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    for model, words in (
        ({"source": changed("def cool(", "def other(")}, "cool: is missing"),
        ({"source": 5}, "its source is not text"),
        ({"text": LINE}, "it has text"),
    ):
        assert words in master.ask("deploy_model", model)["failure"]["message"]
    master.ask("deploy_model", {"source": changed("WIDTH = 4.0", "WIDTH = 1 // 0")})
    found = master.ask("run", {"max_steps": 5})
    assert found["failure"].keys() == {"type", "exception", "message"}
    assert found["failure"]["exception"] == "ZeroDivisionError"
    assert "Traceback" in found["failure"]["message"]
    assert (found["values"], found["states"]) == ([], [])
    found = master.ask("run", {"max_steps": 0, "other": 1})
    assert "max_steps: is 0" in found["failure"]["message"]
    assert "other: is not known" in found["failure"]["message"]
    master.ask("deploy_model", {"source": LINE})
    monkeypatch.setattr("gpuwork.anneal.predecessor.service.MOST_RESULT", 23)
    found = master.ask("run", {"max_steps": 5, "thread_count": 2})
    assert (found["values"], found["failure"]["exception"]) == ([], "TooLarge")
    assert "has 24 bytes and can have 23; ask for fewer chains" in found["failure"]["message"]


@pytest.mark.slow
@needs_dramatiq
def test_a_worker_answers_while_chains_run_and_keeps_its_time_limit(master: Master) -> None:
    endless = changed("return old_temp * 0.99", "while step:\n        pass\n    return old_temp")
    master.ask("deploy_model", {"source": endless})
    running = master.send("run", {"max_steps": 5, "run_limit_s": 2})
    assert master.ask("ping") == "pong"
    found = running.get_result(backend=master.backend, block=True, timeout=60_000)
    assert "run took longer than 2 s" in found["failure"]["message"]


@needs_dramatiq
def test_arrays_are_packed_as_msgpack_numpy_does() -> None:
    import msgpack
    import msgpack_numpy

    from gpuwork.anneal.predecessor.encoding import pack_message, unpack_message

    for array in (np.arange(6, dtype=np.float32).reshape(2, 3), np.array([], np.float64), np.arange(3)):
        ours = msgpack.unpackb(pack_message({"a": array}), object_hook=msgpack_numpy.decode, strict_map_key=False)["a"]
        theirs = unpack_message(msgpack.packb({"a": array}, default=msgpack_numpy.encode))["a"]
        assert ours.tobytes() == theirs.tobytes() == array.tobytes()
        assert ours.shape == theirs.shape == array.shape
    assert unpack_message(pack_message({"a": np.float32(1.5), "b": [1, "x", None]})) == {"a": 1.5, "b": [1, "x", None]}


@needs_dramatiq
def test_what_would_be_executed_on_unpacking_is_refused(tmp_path: Path) -> None:
    import msgpack

    from gpuwork.anneal.predecessor.encoding import unpack_message

    class Trap:
        def __reduce__(self) -> Any:
            return (Path.mkdir, (tmp_path / "executed",))

    array = {b"nd": True, b"type": b"O", b"kind": b"O", b"shape": (1,), b"data": pickle.dumps(Trap())}
    for told in (array, {**array, b"kind": b""}, {b"nd": True}, {b"nd": False, b"type": "<f8", b"data": b""}):
        with pytest.raises(ValueError, match="is not a message"):
            unpack_message(msgpack.packb(told))
    for content in (b"", b"\xc1", b"\x81"):
        with pytest.raises(ValueError, match="is not a message"):
            unpack_message(content)
    assert not (tmp_path / "executed").exists()
