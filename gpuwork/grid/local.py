"""Runs of a submission on this machine, some side by side; one that fails does not stop the others."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from gpuwork.errors import Elsewhere
from gpuwork.grid.one import Stopped, make_param_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuwork.grid.one import Ended
    from gpuwork.grid.submit import SubmittedRuns


def make_param_runs(submission: SubmittedRuns, *, at_most: int, tell: Callable[[Ended | Elsewhere], None]) -> None:
    """Make every run of a submission, in their order.

    Args:
        submission: What was handed in.
        at_most: How many at once.
        tell: Is told of each run that has ended, or is running elsewhere; one call at a time.

    Raises:
        WorkError: The store cannot be written any more; the other runs were ended.
        KeyboardInterrupt: All runs were ended, with all their processes.
    """
    crew = _Crew(submission, tell)
    # Not Thread.join: once an exception has interrupted it, it takes a thread that lives for ended (bpo-45274).
    ended: list[threading.Event] = []
    try:
        for _ in range(min(at_most, len(submission.told.runs))):
            event = threading.Event()
            threading.Thread(target=crew.work, args=(event,)).start()
            ended.append(event)
        for event in ended:
            event.wait()
    finally:
        crew.stop.set()
        for event in ended:
            event.wait()
    if crew.errors:
        raise crew.errors[0]


class _Crew:
    """What the threads share."""

    def __init__(self, submission: SubmittedRuns, tell: Callable[[Ended | Elsewhere], None]) -> None:
        self.stop = threading.Event()
        self.errors: list[Exception] = []
        self._submission = submission
        self._tell = tell
        self._numbers = iter(range(len(submission.told.runs)))
        self._lock = threading.Lock()

    def work(self, ended: threading.Event) -> None:
        """Make one run after the other, until there is none, or it is to stop; tell by `ended` that this is over."""
        try:
            while (number := self._next()) is not None:
                outcome = self._make(number)
                with self._lock:
                    self._tell(outcome)
        except Stopped:
            pass
        except Exception as error:  # noqa: BLE001  (raised by the thread that waits for this one)
            self.errors.append(error)
            self.stop.set()
        finally:
            ended.set()

    def _next(self) -> int | None:
        with self._lock:
            return None if self.stop.is_set() else next(self._numbers, None)

    def _make(self, number: int) -> Ended | Elsewhere:
        try:
            return make_param_run(self._submission.folder, number, stop=self.stop)
        except Elsewhere as error:
            return error
