"""How runs are handed to workers, by a queue; what they do there is read in the folder of jobs.

A message names a run and decides nothing. A run has one end, which is in its folder, and a lock while something of it
lives, so it does not matter how often a message is delivered, or whether it gets lost: an idle worker hands in again
what waits while the queue is empty (`gpuwork.worker.keeper`).
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from gpuprov.shapes.faults import Fault
from gpuwork.broker import make_app, send_runs
from gpuwork.broker_file import read_broker
from gpuwork.jobs.batch import Queued
from gpuwork.jobs.following import MAY, judge
from gpuwork.jobs.order import FILE
from gpuwork.jobs.store import ALIVE, NEXT, SLOTS, is_cancelled
from gpuwork.shared_folder import is_free, try_lock, write_file
from gpuwork.untrusted_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from gpuprov.shapes.job_order import JobOrder
    from gpuprov.shapes.job_run import Chunk, System
    from gpuwork.jobs.batch import Find, Tell
    from gpuwork.jobs.store import Submission

_GPUS: Final = 1
_NEXT_S: Final = 5.0
_LOOK_S: Final = 0.01


class Workers:
    """The workers of a cluster as a batch system."""

    name: System = "workers"

    def __init__(self, broker: Path) -> None:
        """Keep the file with the broker's URL; it is read when something is handed in."""
        self._broker = broker

    def find_faults(self, order: JobOrder) -> Iterator[Fault]:
        """What a worker with one GPU cannot do."""
        if order.gpus > _GPUS:
            yield Fault(file=FILE, where="gpus", message=f"is {order.gpus}, but a worker has one GPU", allowed="0 or 1")
        if order.memory_bytes is not None:
            yield Fault(file=FILE, where="memory_bytes", message="is given, but workers do not limit memory")
        if order.partition is not UNSET:
            yield Fault(file=FILE, where="partition", message="is given, but workers have no partitions")
        if order.qos is not UNSET:
            yield Fault(file=FILE, where="qos", message="is given, but workers have none")
        if order.gpu_type is not UNSET:
            yield Fault(file=FILE, where="gpu_type", message="is given, but workers have no types")
        if order.shards is not UNSET:
            yield Fault(file=FILE, where="shards", message="is given, but workers have whole GPUs")

    def prepare(self, order: JobOrder, folder: Path) -> None:
        """Where runs take their places, if there are fewer of them than runs."""
        if order.at_most:
            (folder / SLOTS).mkdir()
            write_file(folder / NEXT, str(order.at_most))

    def begin(self, order: JobOrder, folder: Path, *, tell: Tell) -> None:  # noqa: ARG002  (there is nothing to tell)
        """Hand runs in: all of them, or as many as may be under way; each that ends hands in the next.

        Raises:
            BrokerError: The broker does not answer, or refused.
        """
        app = make_app(read_broker(self._broker))
        if judge(folder.parent, order)[0] == MAY:  # else the end of what it follows hands it in
            send_runs(app, folder.name, first_runs(order))

    def withdraw(self, chunks: Sequence[Chunk]) -> None:
        """Nothing: a worker that gets one of its runs finds no `submitted.json`."""

    def look(self) -> Find:
        """What the folders say; the broker is not asked."""
        return _find

    def cancel(self, asked: Sequence[tuple[Submission, int | None]]) -> None:
        """Nothing: a run that is under way looks for the mark, and others do not begin."""

    def find_cancelled(self, submission: Submission, begun: Collection[int]) -> frozenset[int]:  # noqa: ARG002
        """None: nobody but gpuprov cancels them."""
        return frozenset()

    def last_words(self, submission: Submission, number: int) -> str | None:  # noqa: ARG002
        """None: what waits is never lost."""
        return None


def first_runs(order: JobOrder) -> range:
    """The runs that are handed in at first; each that ends hands in the next."""
    return range(min(order.at_most or order.runs, order.runs))


def _find(submission: Submission, number: int) -> Queued | None:
    if is_alive(submission, number):
        return Queued(state="running")
    return None if is_cancelled(submission, number) else Queued(state="waiting")


def is_alive(submission: Submission, number: int) -> bool:
    """Whether anything of a run lives, on whatever node."""
    try:
        return not is_free(submission.run_folder(number) / ALIVE, within=submission.folder.parent)
    except OSError:  # of a folder without permission; what runs there is told by its record
        return False


def take_next(submission: Submission) -> int | None:
    """The run that is handed in next; None if all have been, or if that is not known."""
    try:
        handle = open_regular(submission.folder / NEXT, os.O_RDWR, within=submission.folder.parent)
        with os.fdopen(handle, "r+", encoding="ascii") as file:
            until = time.monotonic() + _NEXT_S
            while not try_lock(handle):
                if time.monotonic() > until:  # a job holds it: the keeper hands in again what waits
                    return None
                time.sleep(_LOOK_S)
            number = int(file.read(20))
            file.seek(0)
            file.write(str(number + 1))
    except (OSError, ValueError):
        return None
    return number if 0 <= number < submission.order.runs else None
