"""Drives a run: rounds of iterations until the program says that it is done."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuwork.errors import BatchError
from gpuwork.programs.process import ProgramError
from gpuwork.programs.seat import INITIALISE_S
from gpuwork.programs.slices import Slice, plan_slices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from distributed import Client, Future

    from gpuwork.programs.process import ProgramProcess
    from gpuwork.programs.seat import Place
    from gpuwork.programs.tasks import Part

FAN_IN: Final = 4  # so many results are merged by one task: a tree
ALONE_S: Final = 60.0  # so long a run without any worker waits for one
ROUND_S: Final = 2400.0
_LOOK_S: Final = 1.0
_SHOWN: Final = 10


class WorkersLost(BatchError):
    """No worker is left, or Dask does not answer."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run came to.

    Attributes:
        iterations: How many rounds there were.
        seconds: From the first to the last of them.
        state: The last global state, encoded.
        result: Of the last round, encoded.
        slices: Each with the worker that had it last.
        moved: How many slices another worker had to take over.
    """

    iterations: int
    seconds: float
    state: bytes
    result: bytes
    slices: tuple[tuple[Slice, str], ...]
    moved: int


class Driver:
    """Has the workers of a run iterate.

    Args:
        client: Of Dask.
        process: Runs the program's Python here, with the dataset opened.
        lives: Raises where the scheduler's process has ended.
        tell: Is told how many rounds are done, and the workers and slices.
    """

    def __init__(
        self, client: Client, process: ProgramProcess, *, lives: Callable[[], None], tell: Callable[[int], None]
    ) -> None:
        self._client = client
        self._process = process
        self._lives = lives
        self._tell = tell
        self._moved = 0

    def build(self, places: dict[str, Place]) -> None:
        """Have the program built on one worker for each kind of GPU.

        Raises:
            ProgramError: The compiler complains, told once.
        """
        from gpuwork.programs import tasks

        one_each = {place.target: address for address, place in places.items()}
        futures = [
            self._client.submit(tasks.build, workers=[address], key=f"build-{target}", pure=False)
            for target, address in one_each.items()
        ]
        for future in futures:
            _raise_failure(self._result(future, INITIALISE_S + ROUND_S))

    def divide(self, rows: int, places: dict[str, Place]) -> list[tuple[Slice, str]]:
        """Have each worker take its slice of the rows; who has which."""
        from gpuwork.programs import tasks

        planned = plan_slices(rows, [place.rate for place in places.values()])
        slices = [(part, address) for part, address in zip(planned, places, strict=True) if part is not None]
        futures = [
            self._client.submit(
                tasks.take, part, workers=[address], allow_other_workers=True, key=f"take-{part.number}", pure=False
            )
            for part, address in slices
        ]
        for future in futures:
            _raise_failure(self._result(future, INITIALISE_S * len(slices)))
        return slices

    def iterate(self, slices: list[tuple[Slice, str]]) -> Outcome:
        """Rounds, until the program is done."""
        state = bytes(self._process.ask("init_state", limit_s=INITIALISE_S, what="make its first state")[1][0])
        begun = time.monotonic()
        number, is_done = 0, False
        while not is_done:
            part = self._round(number, slices, state)
            slices = self._follow(slices, part)
            said, (after,) = self._process.ask("update", state, _content(part), what="update its state")
            number, state, is_done = number + 1, bytes(after), bool(said["done"])
            self._tell(number)
        return Outcome(
            iterations=number, seconds=time.monotonic() - begun, state=state, result=_content(part),
            slices=tuple(slices), moved=self._moved,
        )  # fmt: skip

    def _round(self, number: int, slices: Sequence[tuple[Slice, str]], state: bytes) -> Part:
        """One iteration over every slice, merged; a worker that dies is replaced by Dask."""
        from gpuwork.programs import tasks

        told = self._client.submit(tasks.hold, state, key=f"state-{number}", pure=False)
        level = [
            self._client.submit(
                tasks.iterate, part, told, number, key=f"iterate-{number}-{part.number}", workers=[address],
                allow_other_workers=True, pure=False,
            )
            for part, address in slices
        ]  # fmt: skip
        depth, kept = 0, [told, *level]
        while len(level) > 1:
            groups = [level[start : start + FAN_IN] for start in range(0, len(level), FAN_IN)]
            level = [
                self._client.submit(tasks.merge, group, key=f"merge-{number}-{depth}-{place}", pure=False)
                for place, group in enumerate(groups)
            ]
            kept += level
            depth += 1
        part: Part = self._result(level[0], ROUND_S)
        _check_whole(part, number, [one.number for one, _ in slices])
        return part

    def _follow(self, slices: Sequence[tuple[Slice, str]], part: Part) -> list[tuple[Slice, str]]:
        """Who has which slice now."""
        after = [(one, holder) for (one, _), holder in zip(slices, part.holders, strict=True)]
        self._moved += sum(before != now for (_, before), (_, now) in zip(slices, after, strict=True))
        return after

    def _result(self, future: Future, limit_s: float) -> Any:  # noqa: ANN401  (of whatever was submitted)
        """What a task came to.

        Raises:
            WorkersLost: Nobody is left who could do it, or it took too long.
            ProgramError: Each worker that tried it died.
        """
        from distributed import KilledWorker
        from distributed import TimeoutError as NotYet

        until, alone_since = time.monotonic() + limit_s, None
        while True:
            try:
                return future.result(timeout=_LOOK_S)
            except NotYet:
                self._lives()
            except KilledWorker as error:
                raise ProgramError(
                    "each worker that was given a slice died of it",
                    evidence=str(error)[:500],
                    fix="look at what the kernel and the workers said: dmesg | tail; tail worker-*.txt",
                ) from error
            except (OSError, RuntimeError) as error:
                raise WorkersLost("Dask failed", evidence=f"{type(error).__name__}: {error}"[:500], fix=_LOGS) from error
            now = time.monotonic()
            alone_since = None if self._workers() else alone_since or now
            if now >= until or (alone_since is not None and now >= alone_since + ALONE_S):
                raise WorkersLost(
                    "no worker is left" if alone_since is not None else f"{future.key} did not end within {limit_s:g} s",
                    evidence=f"{self._workers()} workers are connected; {future.key} waits",
                    fix=_LOGS,
                )

    def _workers(self) -> int:
        return len(self._client.scheduler_info(n_workers=-1)["workers"])


_LOGS: Final = "look at what they said: tail worker-*.txt scheduler.txt in the folder of the run"


def _content(part: Part) -> bytes:
    assert part.content is not None  # noqa: S101  (_check_whole has looked)
    return part.content


def _check_whole(part: Part, number: int, wanted: list[int]) -> None:
    """Refuse what is not the result of this round over every slice.

    Raises:
        ProgramError: The program failed on a slice.
        WorkersLost: Some slices are missing, or twice.
    """
    _raise_failure(part.failed)
    if part.round != number or [*part.numbers] != wanted or part.content is None:
        counted = Counter(part.numbers)
        missing = [one for one in wanted if one not in counted]
        twice = [one for one, count in counted.items() if count > 1]
        raise WorkersLost(
            f"round {number} is not whole",
            evidence=f"missing slices: {missing[:_SHOWN]}; twice: {twice[:_SHOWN]}; of round {part.round}",
            fix="run the same command again, and report this",
        )


def _raise_failure(failed: tuple[str, str, str] | None) -> None:
    if failed is not None:
        what, evidence, fix = failed
        raise ProgramError(what, evidence=evidence, fix=fix)

