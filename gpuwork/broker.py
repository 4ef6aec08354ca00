"""The broker of a cluster's workers: how runs are handed to it, and who answers. No message shows its password."""

from __future__ import annotations

import itertools
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.base import read
from gpuprov.shapes.workers import Pong, Said
from gpuwork.broker_file import transport_options
from gpuwork.errors import BrokerError
from gpuwork.sending import send_tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from celery import Celery
    from celery.result import AsyncResult
    from kombu import Queue

QUEUE: Final = "gpuwork"
RUN_TASK: Final = "gpuwork.run"
PING_TASK: Final = "gpuwork.ping"
SAY: Final = "gpuwork_say"
_PASSWORD: Final = re.compile(r"://[^@/\s]*@")
_REASON: Final = 300
_CONNECT_S: Final = 4
_UNUSED_S: Final = 60
_LEAST_S: Final = 0.01
_AGAIN_S: Final = 0.1  # a worker that connects after a question does not hear it; a slow one needs longer to answer
# How soon a client tries again to connect; a broker that starts needs seconds, and refuses at once until then.
EAGER: Final = {"interval_start": 0.05, "interval_step": 0.01}
_LONGEST_S: Final = 0.5


def make_app(url: str) -> Celery:
    """A Celery app with our settings and this broker.

    Raises:
        BrokerError: Celery is not installed.
    """
    try:
        from celery import Celery
    except ImportError as error:
        raise no_celery(error) from error

    from gpuwork import celeryconfig

    app = Celery("gpuwork", set_as_current=False)
    app.config_from_object(celeryconfig)
    app.conf.update(broker_settings(url))
    return app


def broker_settings(url: str) -> dict[str, Any]:
    """Where to connect to; whatever else an app may have been told."""
    return {
        "broker_url": url,
        "broker_read_url": url,
        "broker_write_url": url,
        "broker_transport_options": transport_options(url),
    }


def send_runs(app: Celery, submission: str, numbers: Iterable[int]) -> None:
    """Hand runs to the workers; each is a message that says which, and nothing else.

    Raises:
        BrokerError: The broker does not answer, or refused; it has some of the messages.
    """
    with _talking():
        send_tasks(app, RUN_TASK, ((submission, number) for number in numbers), queue=QUEUE)


def check_url(app: Celery) -> None:
    """Raise a BrokerError for a URL of a kind that is not known, or whose library is not installed."""
    with _talking():
        app.connection_for_read().transport  # noqa: B018  (imports it)


def count_waiting(app: Celery) -> int:
    """How many messages no worker has taken yet.

    Raises:
        BrokerError: The broker does not answer.
    """
    with _talking(), app.connection_for_read(connect_timeout=_CONNECT_S) as connection:
        connection.ensure_connection(max_retries=1)
        return int(app.amqp.queues[QUEUE](connection.default_channel).queue_declare().message_count)


def ask_workers(app: Celery, *, limit_s: float, expected: int | None) -> list[Said]:
    """What each worker says of itself, also a busy one; sorted by name.

    Args:
        app: Of the queue.
        limit_s: How long to wait for the broker and for answers.
        expected: Wait no longer when so many have answered; None for as many as the broker says there are, if it does.

    Raises:
        BrokerError: The broker does not answer, or is of a kind by which they cannot be asked.
    """
    with _talking():
        can_ask = app.connection_for_read().supports_exchange_type("fanout")
    if not can_ask:
        raise BrokerError(
            "the workers cannot be listed with this kind of broker",
            evidence="kombu's transport for it delivers each message to only one worker",
            fix="use RabbitMQ or Redis: docs/workers.md",
        )
    until = time.monotonic() + limit_s
    said: dict[str, Any] = {}
    with _talking(), app.connection_for_read(connect_timeout=_CONNECT_S) as connection:
        connection.ensure_connection(timeout=limit_s, interval_max=_LONGEST_S, **EAGER)
        wanted = expected or app.amqp.queues[QUEUE](connection.default_channel).queue_declare().consumer_count
        for count in itertools.count(1):
            if (left_s := until - time.monotonic()) <= 0 or 0 < wanted <= len(said):
                break
            limits = {"timeout": min(left_s, count * _AGAIN_S), "limit": wanted or None}
            for answer in app.control.broadcast(SAY, reply=True, connection=connection, **limits) or ():
                said |= answer
    try:
        return sorted((read(Said, one) for one in said.values()), key=lambda one: one.name)
    except ValueError as error:
        fix = "read the workers' logs; restart workers that are older than this program"
        raise BrokerError(
            "the answer of a worker cannot be read", evidence=ascii(str(error))[:_REASON], fix=fix
        ) from error


def own_queue(worker: str) -> Queue:
    """The queue of one worker alone; it vanishes a minute after that worker."""
    from kombu import Exchange, Queue

    return Queue(worker, Exchange(QUEUE), routing_key=worker, expires=_UNUSED_S)


def ping_workers(app: Celery, names: Iterable[str], *, limit_s: float) -> dict[str, str | None]:
    """The GPU that a task on each worker sees; None for one that did not get to it within the limit.

    Raises:
        BrokerError: The broker does not answer.
    """
    until = time.monotonic() + limit_s
    sent = {}
    with _talking(), app.producer_or_acquire() as producer:
        for name in names:
            queue = own_queue(name)
            queue.no_declare = True  # a worker that went away needs none
            sent[name] = app.send_task(PING_TASK, queue=queue, producer=producer, expires=limit_s, retry=False)
        return {name: _read_ping(result, until) for name, result in sent.items()}


def _read_ping(result: AsyncResult, until: float) -> str | None:
    from celery.exceptions import TimeoutError as NoAnswer

    try:
        told = result.get(timeout=max(_LEAST_S, until - time.monotonic()))
    except NoAnswer:
        return None
    return read(Pong, told).gpu


def no_celery(error: ImportError) -> BrokerError:
    """What is wrong where Celery cannot be imported."""
    return BrokerError(
        "Celery cannot be imported", evidence=str(error)[:_REASON], fix="python3 -m pip install 'celery>=5.7,<6'"
    )


@contextmanager
def _talking() -> Iterator[None]:
    """Raise a BrokerError for whatever a library says of the broker, without its password."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  (each transport has its own)
        raise BrokerError(
            "the broker of the workers does not answer",
            evidence=hide_password(f"{type(error).__name__}: {error}")[:_REASON],
            fix="check the broker; if it is gpuprov's, in its node: systemctl status rabbitmq-server",
        ) from None  # the original may show the URL


def hide_password(text: str) -> str:
    """A text whose URLs have lost their account and password."""
    return _PASSWORD.sub("://...@", text)
