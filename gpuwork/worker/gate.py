"""Has a worker take no work while its node is held or its GPU is not scrubbed, or before it begins anew.

What it is at goes on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from gpuwork.jobs.store import is_held

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from threading import Event

    from celery.worker.consumer import Consumer

GATE_S: Final = 0.5
_LOG: Final = logging.getLogger(__name__)


class Gate:
    """Looks whether the node is held; until it has, `gpuwork.jobs.one` hands each run back."""

    def __init__(
        self, store: Path, queues: Sequence[str], *, is_last: Callable[[], bool], find_fault: Callable[[], str]
    ) -> None:
        """Keep what is looked at.

        Args:
            store: The folder of jobs.
            queues: Those that are left alone.
            is_last: Whether the task under way is the last one.
            find_fault: Why the GPU may not be used, in words; empty where it may.
        """
        self._store = store
        self._queues = tuple(queues)
        self._is_last = is_last
        self._find_fault = find_fault
        self._is_closed = False

    def until(self, stop: Event, consumer: Consumer) -> None:
        """Look several times a second, and tell the part of Celery that talks to the broker."""
        while not stop.is_set():
            is_last = self._is_last()
            fault = self._find_fault()
            closed = is_last or bool(fault) or is_held(self._store)
            if closed != self._is_closed:
                self._is_closed = closed
                turn = consumer.cancel_task_queue if closed else consumer.add_task_queue
                for queue in self._queues:
                    consumer.call_soon(turn, queue)
                if not is_last:  # said by the same part of Celery, once it is true: it may have listened for seconds
                    why = fault or "this node is held"
                    said = f"{why}: no work is taken" if closed else "this node takes work again"
                    consumer.call_soon(_LOG.warning, "%s", said)
            stop.wait(GATE_S)
