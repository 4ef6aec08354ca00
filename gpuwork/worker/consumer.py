"""Celery's part that talks to the broker, with shorter pauses: its own grow to half a minute, while work waits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from celery.worker.consumer import Consumer

from gpuwork.broker import EAGER

if TYPE_CHECKING:
    from kombu import Connection


class EagerConsumer(Consumer):  # type: ignore[misc]  # (Celery has no types)
    """Tries again at once, then a little later each time, and every 2 s in the end."""

    def ensure_connected(self, conn: Connection) -> Connection:
        """The connection, as soon as there is one."""
        conn.ensure_connection = partial(conn.ensure_connection, interval_max=2, **EAGER)
        connected: Connection = super().ensure_connected(conn)
        return connected
