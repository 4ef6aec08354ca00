"""What Dask has a worker do. A failure is an answer: Dask itself would try again, and tell of it in its own words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin, get_worker

from gpuwork.errors import WorkError
from gpuwork.programs.seat import Seat

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuwork.programs.run_folder import RunFolder
    from gpuwork.programs.seat import Place
    from gpuwork.programs.slices import Slice

_SEAT = "gpuwork-seat"


@dataclass(frozen=True, kw_only=True)
class Part:
    """The result of a round over some slices.

    Attributes:
        round: Counted from 0.
        numbers: Of the slices, in order.
        holders: The worker that has each.
        content: The result, encoded; None where it failed.
        failed: The parts of an error: its class, what, evidence and fix; None where there is none.
    """

    round: int
    numbers: tuple[int, ...]
    holders: tuple[str, ...]
    content: bytes | None
    failed: tuple[str, str, str] | None = None


class SeatPlugin(WorkerPlugin):
    """Gives a Dask worker its seat."""

    name = _SEAT

    def __init__(self, run: RunFolder, number: int) -> None:
        self.seat = Seat(run, number)

    def teardown(self, worker: Any) -> None:  # noqa: ANN401, ARG002  (Dask's)
        """The worker ends: so does the program's process."""
        self.seat.drop()


def look(dask_worker: Any) -> Place:  # noqa: ANN401  (Dask's)
    """What a worker has; run beside its tasks."""
    place: Place = dask_worker.plugins[_SEAT].seat.place
    return place


def build() -> tuple[str, str, str] | None:
    """Build the program for this worker's kind of GPU."""
    return _failure_of(_seat().build)


def take(part: Slice) -> tuple[str, str, str] | None:
    """Hold a slice."""
    return _failure_of(lambda: _seat().take(part))


def close(dask_worker: Any) -> tuple[str, str, str] | None:  # noqa: ANN401
    """Free all slices; run when there are no tasks any more."""
    return _failure_of(dask_worker.plugins[_SEAT].seat.close)


def hold(state: bytes) -> bytes:
    """The state of a round, which workers get from each other."""
    return state


def iterate(part: Slice, state: bytes, number: int) -> Part:
    """One iteration over a slice."""
    found: list[bytes] = []
    failed = _failure_of(lambda: found.append(_seat().iterate(part, state)))
    holders = (get_worker().address,)
    content = found[0] if found else None
    return Part(round=number, numbers=(part.number,), holders=holders, content=content, failed=failed)


def merge(parts: list[Part]) -> Part:
    """Results as one; the first failure is that of the whole."""
    wrong = [part for part in parts if part.failed is not None or part.round != parts[0].round]
    if wrong:
        return wrong[0]
    found: list[bytes] = []
    contents = [part.content for part in parts if part.content is not None]
    failed = _failure_of(lambda: found.append(_seat().merge(contents)))
    return Part(
        round=parts[0].round,
        numbers=tuple(number for part in parts for number in part.numbers),
        holders=tuple(holder for part in parts for holder in part.holders),
        content=found[0] if found else None,
        failed=failed,
    )


def _seat() -> Seat:
    seat: Seat = get_worker().plugins[_SEAT].seat
    return seat


def _failure_of(do: Callable[[], object]) -> tuple[str, str, str] | None:
    try:
        do()
    except WorkError as error:
        return (error.what, error.evidence, error.fix)
    return None
