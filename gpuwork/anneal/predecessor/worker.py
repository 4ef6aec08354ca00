"""The process of such a worker: one queue, on a Redis that needs a password."""

from __future__ import annotations

import os
import re
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gpuwork.errors import Refused, StoreError
from gpuwork.signals import on_signals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuwork.anneal.predecessor.service import Service

THREADS: Final = 64  # more than runs can wait: pings are answered meanwhile
ACTORS: Final = ("ping", "stats", "deploy_model", "run")
_LONGEST_MS: Final = 365 * 24 * 3600 * 1000  # the settings of a run have a limit of their own
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """What the environment says: the variables are the predecessor's.

    Attributes:
        queue: WORKER_QUEUE_ID: the queue of this worker alone.
        host: REDIS_HOST.
        port: REDIS_PORT.
        password: REDIS_PWD.
    """

    queue: str
    host: str
    port: int
    password: str = field(repr=False)


def read_environment(environment: Mapping[str, str] = os.environ) -> WorkerSettings:
    """The settings.

    Raises:
        Refused: With all that is missing or wrong.
    """
    queue, port = environment.get("WORKER_QUEUE_ID", ""), environment.get("REDIS_PORT", "6379")
    faults = []
    if not _NAME.fullmatch(queue):
        faults.append("WORKER_QUEUE_ID is not the name of a queue (allowed: letters, digits, _ . and -)")
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 2**16:
        faults.append("REDIS_PORT is not a port")
    if not environment.get("REDIS_PWD"):
        faults.append("REDIS_PWD is missing: whoever reaches a Redis without a password can run code here")
    if faults:
        raise Refused("the worker cannot start", evidence="\n".join(faults), fix="set these variables, and start again")
    return WorkerSettings(
        queue=queue,
        host=environment.get("REDIS_HOST", "127.0.0.1"),
        port=int(port),
        password=environment["REDIS_PWD"],
    )


def declare_actors(broker: Any, service: Service, queue: str) -> dict[str, Any]:  # noqa: ANN401
    """The actors of a service, on a queue of a broker of dramatiq's; their results are stored."""
    import dramatiq

    return {
        name: dramatiq.actor(
            getattr(service, name), actor_name=name, broker=broker, queue_name=queue, store_results=True,
            max_retries=0, time_limit=_LONGEST_MS,
        )
        for name in ACTORS
    }  # fmt: skip


def serve_master() -> int:
    """Serve until a signal ends it."""
    settings = read_environment()
    try:
        import dramatiq
        from dramatiq.results import Results
        from dramatiq.results.backends import RedisBackend
        from redis.exceptions import RedisError

        from gpuwork.anneal.predecessor.broker import PatientBroker
        from gpuwork.anneal.predecessor.encoding import MessagePack
        from gpuwork.anneal.predecessor.service import Service
    except ImportError as error:
        raise StoreError(
            "this machine lacks a package of the predecessor's messages",
            evidence=f"{error} ({sys.executable})",
            fix=f"{sys.executable} -m pip install 'gpuprov[predecessor]'",
        ) from error
    place = {"host": settings.host, "port": settings.port, "password": settings.password}
    dramatiq.set_encoder(MessagePack())
    broker = PatientBroker(**place)
    try:
        broker.client.ping()
    except RedisError as error:
        raise StoreError(
            f"the broker at {settings.host}:{settings.port} cannot be used",
            evidence=str(error),
            fix=f"redis-cli -h {settings.host} -p {settings.port} --askpass ping, and look at REDIS_HOST, REDIS_PORT "
            "and REDIS_PWD",
        ) from error
    broker.add_middleware(Results(backend=RedisBackend(encoder=MessagePack(), **place)))
    service = Service()
    declare_actors(broker, service, settings.queue)
    worker = dramatiq.Worker(broker, queues={settings.queue}, worker_threads=THREADS)
    ended = threading.Event()
    with on_signals(ended.set):
        worker.start()
        sys.stderr.write(f"serving {settings.queue} on {settings.host}:{settings.port}\n")
        ended.wait()
        service.stop.set()
        worker.stop()
    return 0
