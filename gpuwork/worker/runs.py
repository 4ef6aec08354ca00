"""Runs of jobs on this worker: each is `gpuwork.jobs.one` in a process of its own, on a leash.

The leash is that program's stdin. It ends when this process lets go of it, or is killed; then the run is stopped.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gpuwork.errors import StoreError
from gpuwork.jobs.leftovers import WORKER_VARIABLE
from gpuwork.jobs.one import EXIT_STOPPED, LEASHED
from gpuwork.jobs.store import read_submission
from gpuwork.jobs.submitter import read_submitter
from gpuwork.program import program_argv

if TYPE_CHECKING:
    from pathlib import Path

    from gpuwork.worker.scrubbing import Scrubbing

_MOST_BEGINS: Final = 200  # `one` counts how often it was killed, and gives up long before
_SAID_BYTES: Final = 4000
_LOG: Final = logging.getLogger(__name__)


class LeashedRuns:
    """Starts runs, one after the other, until it is told to stop."""

    def __init__(self, store: Path, *, mark: str, scrubbing: Scrubbing | None = None) -> None:
        """Keep the folder of jobs, what marks all processes of this worker's runs, and what scrubs its GPU, if any."""
        self.store = store
        self._scrubbing = scrubbing
        self._mark = mark
        self._stop = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End the run that is under way, with all its processes, and begin no other; called by a signal too."""
        self._stop.set()
        self._let_go()

    def why_not(self, submission: str) -> str:
        """Why no run of a submission may have the GPU, in words; empty once it may, its memory scrubbed if need be."""
        if self._scrubbing is None:
            return ""
        owner = ""
        try:
            told = read_submission(self.store / submission)
            if not told.order.has_gpu:
                return ""
            submitter = read_submitter(told.folder)
            owner = submitter.owner if submitter else ""
        except StoreError:  # it may just be being submitted: nobody knows whose it is
            pass
        return self._scrubbing.prepare(owner, is_over=self._stop.is_set)

    def make(self, submission: str, number: int) -> int:
        """Make a run, and return the exit status of `one`."""
        for _ in range(_MOST_BEGINS):
            if self._stop.is_set():
                return EXIT_STOPPED
            status = self._begin(submission, number)
            if status != -signal.SIGKILL:  # else alone, by a lack of memory or by the command
                break
        return status if status >= 0 else 128 - status

    def _begin(self, submission: str, number: int) -> int:
        argv = program_argv("gpuwork.jobs.one", str(self.store / submission), str(number), LEASHED, isolated=True)
        env = {**os.environ, WORKER_VARIABLE: self._mark}
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(  # noqa: S603  (of this package)
                argv, cwd="/", env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said,
                start_new_session=True,  # it ends in order when the process of tasks is killed with all its group
            )  # fmt: skip
            self._process = process
            if self._stop.is_set():
                self._let_go()
            status = process.wait()
            self._let_go()
            said.seek(0)
            words = said.read(_SAID_BYTES).decode(errors="replace").strip()
        if words:
            _LOG.warning("run %s.%s, exit status %s:\n%s", submission, number, status, words)
        return status

    def _let_go(self) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
