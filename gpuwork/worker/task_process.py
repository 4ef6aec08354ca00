"""The process in which a worker runs its tasks, one after the other; it is forked before anything uses CUDA."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from celery import signals
from celery.concurrency.prefork import TaskPool

_ENDING: Final = (signal.SIGTERM, signal.SIGKILL)  # another one may be what the task itself waits for

if TYPE_CHECKING:
    from collections.abc import Callable


class ProcessPool(TaskPool):  # type: ignore[misc]  # (Celery has no types)
    """Celery's, but that the processes of a revoked task end with it, as with a hard time limit."""

    terminate_job: Callable[..., None]

    def on_start(self) -> None:
        """Start the process."""
        super().on_start()
        end_process = self.terminate_job

        def terminate_job(pid: int, sig: int | None = None) -> None:
            end_process(pid, sig)
            if (sig or signal.SIGTERM) in _ENDING:
                with suppress(ProcessLookupError):
                    os.killpg(pid, sig or signal.SIGTERM)

        self.terminate_job = terminate_job


class TaskProcess:
    """What the worker tells that process, and what it does for it; there is a new one where that has ended."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        """Keep what is to be done in that process, or in this one if it runs tasks itself, when the worker ends."""
        self._on_end = on_end
        self._heard, self._held = os.pipe()  # it ends when this process lets go of it

    def connect(self) -> None:
        """Have that process know of this one."""
        signals.worker_process_init.connect(self._begin, weak=False)

    def end(self) -> None:
        """The worker ends; called by a signal, maybe more than once."""
        self._on_end()
        if self._held >= 0:
            held, self._held = self._held, -1
            os.close(held)

    def _begin(self, **_: object) -> None:
        if self._held >= 0:
            os.close(self._held)
        os.setpgid(0, 0)  # so that a hard time limit ends the processes of a task too
        # A task may have processes of its own, such as those that load data, which Celery's setting forbids.
        vars(multiprocessing.current_process())["_config"]["daemon"] = False
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        os.read(self._heard, 1)
        self._on_end()
