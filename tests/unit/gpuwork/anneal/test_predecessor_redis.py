"""A master of the predecessor and our worker in a process of its own, with a real Redis between them."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.fakes.redis_server import RedisServer, is_there
from tests.unit.gpuwork.anneal.conftest import LINE, anneal, changed
from tests.unit.gpuwork.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[4]
NEEDED = ("dramatiq", "msgpack", "msgpack_numpy", "redis")
there = is_there and all(importlib.util.find_spec(name) for name in NEEDED)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not there and "CI" not in os.environ, reason="needs Redis (redis-tools) and dramatiq"),
]
ENDLESS = changed("return old_temp * 0.99", "while step:\n        pass\n    return old_temp")


class Worker:
    """Our worker, started as its users start it."""

    def __init__(self, redis: RedisServer, folder: Path, *, queue: str = "worker-7", password: str = "") -> None:
        told = {"WORKER_QUEUE_ID": queue, "REDIS_PORT": str(redis.port), "NUMBA_ENABLE_CUDASIM": "1"}
        told |= {"REDIS_PWD": password or redis.password, "TMPDIR": str(folder)}
        self._log = folder / f"{queue}.txt"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gpuwork.anneal", "worker"], cwd=ROOT, env={**os.environ, **told}, stderr=log
            )

    def said(self) -> str:
        return self._log.read_text()

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)


class Master:
    """Speaks as the predecessor's does: nothing here is of gpuwork."""

    def __init__(self, redis: RedisServer) -> None:
        import dramatiq
        import msgpack
        import msgpack_numpy
        from dramatiq.brokers.redis import RedisBroker
        from dramatiq.results.backends import RedisBackend

        class Encoder(dramatiq.Encoder):  # type: ignore[misc]  # no types are read of dramatiq
            def encode(self, data: object) -> bytes:
                return bytes(msgpack.packb(data, default=msgpack_numpy.encode, use_bin_type=True))

            def decode(self, data: bytes) -> Any:
                return msgpack.unpackb(data, object_hook=msgpack_numpy.decode, raw=False, strict_map_key=False)

        self._dramatiq, self._before = dramatiq, dramatiq.get_encoder()
        dramatiq.set_encoder(Encoder())
        place = {"host": "127.0.0.1", "port": redis.port, "password": redis.password}
        self.broker, self._backend = RedisBroker(**place), RedisBackend(encoder=Encoder(), **place)

    def send(self, actor: str, *arguments: object, queue: str = "worker-7") -> Any:
        message = self._dramatiq.Message(queue_name=queue, actor_name=actor, args=arguments, kwargs={}, options={})
        return self.broker.enqueue(message)

    def wait(self, message: Any, limit_s: float = 30) -> Any:
        from dramatiq.results.errors import ResultMissing

        until = time.monotonic() + limit_s
        while True:
            try:
                return message.get_result(backend=self._backend)
            except ResultMissing:  # noqa: PERF203  (it is not there yet)
                assert time.monotonic() < until, "no answer"
                time.sleep(0.05)

    def ask(self, actor: str, *arguments: object, queue: str = "worker-7") -> Any:
        return self.wait(self.send(actor, *arguments, queue=queue))

    def end(self) -> None:
        self._dramatiq.set_encoder(self._before)


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def master(redis: RedisServer) -> Iterator[Master]:
    made = Master(redis)
    made.broker.flush_all()
    yield made
    made.end()


@pytest.fixture
def worker(redis: RedisServer, tmp_path: Path) -> Iterator[Worker]:
    made = Worker(redis, tmp_path)
    yield made
    made.process.kill()
    made.process.wait()


def test_a_model_is_deployed_and_run(master: Master, worker: Worker, redis: RedisServer, tmp_path: Path) -> None:
    assert master.ask("ping") == "pong"
    assert master.ask("stats")["memory"]["total_bytes"] > 0
    early = master.ask("run", {"max_steps": 5})
    assert (early["values"], early["states"]) == ([], [])
    assert early["failure"]["message"] == "no model was deployed; send one by deploy_model first"
    assert master.ask("deploy_model", {"source": LINE, "precision": "float64"}) == {"failure": None}
    other = Worker(redis, tmp_path, queue="worker-8")
    try:
        assert "no model" in master.ask("run", {}, queue="worker-8")["failure"]["message"], "a queue for each"
        assert other.end() == 0
    finally:
        other.process.kill()
    found = master.ask("run", {"max_steps": 40, "initial_temp": 1, "thread_count": 5, "random_seed": -919})
    whole = anneal(max_steps=40, thread_count=5, random_seed=-919, precision="float64").chains
    assert found["failure"] is None
    assert (found["values"].dtype, found["values"].tobytes()) == (np.float64, whole.values.tobytes())
    assert (found["states"].shape, found["states"].tobytes()) == ((5, 2), whole.states.tobytes())
    assert worker.end() == 0
    assert redis.password not in worker.said()


def test_pings_are_answered_whatever_waits_and_a_signal_ends_all(master: Master, worker: Worker) -> None:
    master.ask("deploy_model", {"source": ENDLESS})
    sent = [master.send("run", {"max_steps": 5}) for _ in range(70)]
    assert master.wait(master.send("ping"), 30) == "pong"
    refused = master.wait(sent[-1])["failure"]
    assert (refused["exception"], "wait for their turn" in refused["message"]) == ("Busy", True)
    assert worker.end() == 0


def test_what_is_no_message_ends_nothing(master: Master, worker: Worker) -> None:
    master.send("erase")
    master.send("ping", "more")
    master.send("run", 5)
    for number, content in enumerate((b"\xc1", b"\x01", b"\x80", b'{"actor_name": "ping"}')):
        master.broker.client.hset("dramatiq:worker-7.msgs", f"garbage-{number}", content)
        master.broker.client.rpush("dramatiq:worker-7", f"garbage-{number}")
    asked = [master.send("ping") for _ in range(3)]
    assert [master.wait(one) for one in asked] == ["pong"] * 3
    assert worker.said().count("is skipped") == 4
    assert worker.process.poll() is None


def test_a_broker_that_is_killed_and_started_again_is_found_again(
    master: Master, worker: Worker, redis: RedisServer
) -> None:
    assert master.ask("deploy_model", {"source": LINE}) == {"failure": None}
    redis.kill()
    redis.start()
    assert master.ask("run", {"max_steps": 3})["failure"] is None
    assert worker.process.poll() is None


def test_a_broker_that_cannot_be_used_is_told(redis: RedisServer, tmp_path: Path) -> None:
    worker = Worker(redis, tmp_path, password="wrong")
    assert worker.process.wait(30) == 3
    assert f"the broker at 127.0.0.1:{redis.port} cannot be used" in worker.said()
    assert "Traceback" not in worker.said()
    nobody = RedisServer(tmp_path)
    worker = Worker(nobody, tmp_path)
    wait_until(lambda: worker.process.poll() is not None, "it goes on")
    assert worker.process.returncode == 3
    assert "Connection refused" in worker.said()
