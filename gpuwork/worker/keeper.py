"""Hands in again what waits although the queue is empty: no message is needed to know what is to be run.

So nothing is lost if the broker forgets its messages, or if a message was dropped because something of its run lived.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from gpuwork.broker import count_waiting, send_runs
from gpuwork.errors import BrokerError, Elsewhere, StoreError
from gpuwork.jobs.following import MAY, judge
from gpuwork.jobs.people import count_free
from gpuwork.jobs.store import list_open, read_submission
from gpuwork.jobs.workers import Workers
from gpuwork.shared_folder import only_one
from gpuwork.worker.waiting_runs import find_waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from threading import Event

    from celery import Celery

    from gpuwork.jobs.store import Submission

LOOK_S: Final = 5.0
_LOCK: Final = ".keeper"
_AT_ONCE: Final = 1000
_LOG: Final = logging.getLogger(__name__)


class Keeper:
    """Looks at the folder of jobs while its worker is idle."""

    def __init__(self, app: Celery, store: Path, *, begun: Callable[[], int], is_busy: Callable[[], bool]) -> None:
        """Keep the app that sends; how many tasks its worker has begun so far; and whether one of them goes on."""
        self._app = app
        self._store = store
        self._begun = begun
        self._is_busy = is_busy
        self._over: set[str] = set()

    def until(self, stop: Event) -> None:
        """Look every few seconds; only a worker that began nothing since the last look has a reason to."""
        before = -1
        while not stop.wait(LOOK_S):
            begun = self._begun()
            if begun == before and not self._is_busy():
                try:
                    self.look()
                except (BrokerError, StoreError, OSError) as error:
                    _LOG.warning("the waiting runs were not checked: %s", error)
            before = begun

    def look(self) -> list[tuple[str, list[int]]]:
        """Hand in what waits if the queue is empty; what was handed in, by submission.

        Raises:
            BrokerError: The broker does not answer.
            OSError: The folder of jobs cannot be read.
        """
        try:
            with only_one(self._store, name="of the keeper", log=self._store, lock=_LOCK):
                return self._look()
        except Elsewhere:
            return []

    def _look(self) -> list[tuple[str, list[int]]]:
        waiting = []
        for number in list_open(self._store):
            if number not in self._over:
                try:
                    waiting.append((number, self._find_waiting(read_submission(self._store / number))))
                except StoreError:  # the list of jobs says why
                    self._over.add(number)
        found = [(number, runs[:_AT_ONCE]) for number, runs in waiting if runs]
        if not found or count_waiting(self._app):
            return []
        for number, runs in found:
            _LOG.warning("submitted again, because the queue is empty: %s runs of job %s", len(runs), number)
            send_runs(self._app, number, runs)
        return found

    def _find_waiting(self, submission: Submission) -> list[int]:
        """The runs that may begin and of which nothing lives; of a limited submission, as many as have a place."""
        if submission.told.system != Workers.name:
            self._over.add(submission.id)
            return []
        if judge(self._store, submission.order)[0] != MAY:
            return []
        waiting, alive = find_waiting(submission)
        if not waiting and not alive:
            self._over.add(submission.id)
        return waiting[: count_free(submission)]
