"""dramatiq's broker for Redis, which passes over what is no message.

dramatiq's own consumer begins anew after such a one, and loses what it had fetched together with it.
"""

from __future__ import annotations

import sys
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker


class PatientBroker(RedisBroker):  # type: ignore[misc]  # no types are read of dramatiq
    """Tells what cannot be read, and goes on with the next message."""

    @property
    def consumer_class(self) -> Any:  # noqa: ANN401  (dramatiq's, which has no public name)
        """Reads the messages of a queue."""
        consumer: Any = super().consumer_class

        class PatientConsumer(consumer):  # type: ignore[misc]
            """Gives one message after the other."""

            def __next__(self) -> Any:  # noqa: ANN401
                while True:
                    try:
                        return super().__next__()
                    except dramatiq.DecodeError as error:  # noqa: PERF203  (the others are read)
                        sys.stderr.write(f"an entry of the queue is skipped: {error.__cause__ or error}\n"[:1000])

        return PatientConsumer
