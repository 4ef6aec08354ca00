"""Hands runs to librdkafka's stand-in for a broker by kombu's `confluentkafka`, takes them, and asks for workers.

A process of its own, as librdkafka's threads write to stderr whenever they like. Prints what came of it as JSON.
"""

import json
import sys
import time
from contextlib import suppress
from typing import Any

from confluent_kafka import Producer

from gpuwork.broker import QUEUE, ask_workers, check_url, make_app, send_runs
from gpuwork.errors import BrokerError

BUDGET_S = 60.0

holder = Producer({"test.mock.num.brokers": 1})  # the stand-in lives as long as this
(broker,) = holder.list_topics(timeout=10).brokers.values()
app = make_app(f"confluentkafka://{broker.host}:{broker.port}")
app.conf.broker_transport_options = {"wait_time_seconds": 1}
check_url(app)
send_runs(app, "7", range(3))
found: list[Any] = []


def take(body: Any, message: Any) -> None:
    """Keep a message, and acknowledge it."""
    found.append(body[0])
    message.ack()


until = time.monotonic() + BUDGET_S
with app.connection_for_read() as connection, connection.Consumer([app.amqp.queues[QUEUE]], callbacks=[take]):
    while len(found) < 3 and time.monotonic() < until:
        with suppress(TimeoutError):
            connection.drain_events(timeout=0.1)
try:
    ask_workers(app, limit_s=1, expected=None)
    refused = ""
except BrokerError as error:
    refused = error.what
sys.stdout.write(json.dumps({"found": sorted(found), "refused": refused}))
