"""Kafka by kombu's `confluentkafka`, against librdkafka's own stand-in for a broker: what works, and what does not."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from gpuwork.broker import QUEUE, ask_workers, check_url, make_app, send_runs
from gpuwork.errors import BrokerError
from tests.unit.gpuwork.conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

if not os.environ.get("CI"):
    pytest.importorskip("confluent_kafka")


@pytest.fixture
def url() -> Iterator[str]:
    """Of a stand-in within this process, for as long as the client lives that has it."""
    from confluent_kafka import Producer

    holder = Producer({"test.mock.num.brokers": 1})
    (broker,) = holder.list_topics(timeout=10).brokers.values()
    yield f"confluentkafka://{broker.host}:{broker.port}"
    del holder


@pytest.mark.slow
def test_runs_are_handed_in_and_arrive_once_acknowledged(url: str) -> None:
    app = make_app(url)
    app.conf.broker_transport_options = {"wait_time_seconds": 1}
    check_url(app)
    send_runs(app, "7", range(3))
    found: list[Any] = []

    def take(body: Any, message: Any) -> None:
        found.append(body[0])
        message.ack()

    with app.connection_for_read() as connection, connection.Consumer([app.amqp.queues[QUEUE]], callbacks=[take]):
        wait_until(lambda: drained(connection) and len(found) == 3, "three messages arrive")
    assert sorted(found) == [["7", 0], ["7", 1], ["7", 2]]


def test_workers_cannot_be_asked_and_the_error_says_so(url: str) -> None:
    with pytest.raises(BrokerError, match="this kind of broker cannot ask which workers there are"):
        ask_workers(make_app(url), limit_s=1, expected=None)


def drained(connection: Any) -> bool:
    """Take what is there."""
    with suppress(TimeoutError):
        connection.drain_events(timeout=0.1)
    return True
