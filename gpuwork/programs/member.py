"""A Dask worker as a member of a run: it answers for its share of a round, and asks others for theirs.

Rounds are messages between workers and not Dask's tasks: a graph of five tasks takes Dask longer than a round may take
(docs/decisions.md).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from distributed import WorkerPlugin

from gpuprov.shapes.base import as_values, read
from gpuprov.shapes.program_rounds import RoundShare, ShareAnswer, SliceResult
from gpuwork.errors import WorkError
from gpuwork.programs.rounds import follow_each_other, join_answers
from gpuwork.programs.seat import Seat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuwork.programs.run_folder import RunFolder

LOOK: Final = "gpuwork_look"
BUILD: Final = "gpuwork_build"
TAKE: Final = "gpuwork_take"
ROUND: Final = "gpuwork_round"
CLOSE: Final = "gpuwork_close"


class RunMember(WorkerPlugin):  # type: ignore[misc]
    """Answers for a worker of a run."""

    name = "gpuwork"

    def __init__(self, run: RunFolder, number: int) -> None:
        self._seat = Seat(run, number)
        self._number = number
        # One thread for the whole life: the program's process dies with the thread that has started it.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="gpuwork")
        self._worker: Any = None

    def setup(self, worker: Any) -> None:  # noqa: ANN401  (Dask's)
        """Dask's worker begins."""
        self._worker = worker
        handlers = {LOOK: self._look, BUILD: self._build, TAKE: self._take, ROUND: self._round, CLOSE: self._close}
        worker.handlers.update(handlers)

    def teardown(self, worker: Any) -> None:  # noqa: ANN401, ARG002
        """Dask's worker ends: so does the program's process."""
        self._seat.drop()
        self._thread.shutdown(wait=False)

    async def _look(self) -> tuple[int, dict[str, Any]]:
        return self._number, as_values(self._seat.place)

    async def _build(self) -> dict[str, Any]:
        return as_values(await self._do(self._seat.build))

    async def _close(self) -> dict[str, Any]:
        return as_values(await self._do(self._seat.close))

    async def _take(self, share: Mapping[str, Any], before: int) -> dict[str, Any]:
        wanted = read(RoundShare, share)

        def take() -> list[SliceResult]:
            self._seat.release(before)
            for one in wanted.slices:
                self._seat.take(one)
            return [SliceResult(round=-1, numbers=(one.number,), content=b"") for one in wanted.slices]

        others = [self._ask(other, TAKE, before=before) for other in wanted.others]
        answers = await asyncio.gather(self._do(take), *others)
        return as_values(join_answers(answers))

    async def _round(self, number: int, state: bytes, share: Mapping[str, Any]) -> dict[str, Any]:
        wanted = read(RoundShare, share)

        def iterate() -> list[SliceResult]:
            return [self._seat.iterate(one, number, state) for one in wanted.slices]

        others = [self._ask(other, ROUND, number=number, state=state) for other in wanted.others]
        answer = join_answers(await asyncio.gather(self._do(iterate), *others))
        merged = await self._do(lambda: self._merge(number, answer.parts)) if answer.failed is None else answer
        if merged.failed is not None:
            return as_values(merged)
        return as_values(ShareAnswer(parts=merged.parts, lost=answer.lost))

    def _merge(self, number: int, parts: tuple[SliceResult, ...]) -> list[SliceResult]:
        merged = []
        for group in follow_each_other(parts):
            numbers = tuple(one for part in group for one in part.numbers)
            seconds = tuple(one for part in group for one in part.seconds)
            content = self._seat.merge([part.content for part in group])
            merged.append(SliceResult(round=number, numbers=numbers, content=content, seconds=seconds))
        return merged

    async def _do(self, work: Callable[[], Sequence[SliceResult] | None]) -> ShareAnswer:
        """Do something in the thread of the program's process; its failure is an answer."""
        try:
            parts = await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except WorkError as error:
            return ShareAnswer(failed=(error.what, error.evidence, error.fix))
        return ShareAnswer(parts=tuple(parts or ()))

    async def _ask(self, share: RoundShare, verb: str, **given: Any) -> ShareAnswer:  # noqa: ANN401
        """Have another worker do its share; one that is gone is told of."""
        try:
            told = await getattr(self._worker.rpc(share.address), verb)(share=as_values(share), **given)
        except OSError:
            return ShareAnswer(lost=(share.address,))
        return read(ShareAnswer, told)
