"""The workers of a run, as who leads it asks them by Dask's connections."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.base import read
from gpuprov.shapes.program_rounds import Equipment, ShareAnswer
from gpuwork.errors import BatchError
from gpuwork.programs.member import CLOSE, LOOK
from gpuwork.programs.rounds import join_answers
from gpuwork.programs.seat import CLEAN_UP_S

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from distributed import Client

SETTLE_S: Final = 15.0  # so long Dask takes to notice that a worker is gone
ALONE_S: Final = 60.0  # so long a run without any worker waits for one
_LOOK_S: Final = 0.1
_LOOK_LIMIT_S: Final = 60.0


class WorkersLost(BatchError):
    """No worker is left, or Dask does not answer."""


class Members:
    """The workers that a client's scheduler knows.

    Args:
        client: Of Dask.
        lives: Raises where the scheduler's process has ended.
    """

    def __init__(self, client: Client, lives: Callable[[], None]) -> None:
        self._client = client
        self._lives = lives

    def ask(self, address: str, verb: str, **given: Any) -> ShareAnswer:  # noqa: ANN401  (what Dask can send)
        """What a worker answers; that it is gone, where it does not."""
        answer: ShareAnswer = self._client.sync(self._ask, address, verb, given)
        return answer

    def ask_all(self, verb: str, given: Mapping[str, dict[str, Any]]) -> dict[str, ShareAnswer]:
        """What several workers answer, asked at once."""
        answers = self._client.sync(self._ask_all, verb, given)
        return dict(zip(given, answers, strict=True))

    async def _ask(self, address: str, verb: str, given: Mapping[str, Any]) -> ShareAnswer:
        try:
            return read(ShareAnswer, await getattr(self._client.rpc(address), verb)(**given))
        except OSError:
            return ShareAnswer(lost=(address,))

    async def _ask_all(self, verb: str, given: Mapping[str, dict[str, Any]]) -> list[ShareAnswer]:
        return list(await asyncio.gather(*(self._ask(address, verb, one) for address, one in given.items())))

    def connected(self) -> list[str]:
        """The addresses of those that the scheduler has."""
        return list(self._client.scheduler_info(n_workers=-1)["workers"])

    def alive(self, *, without: Collection[str]) -> list[str]:
        """Those that did not fail, as soon as there is one; else those of the others that are connected still.

        Raises:
            WorkersLost: There is none for too long.
        """
        until = time.monotonic() + ALONE_S
        while True:
            connected = self.connected()
            found = [address for address in connected if address not in without]
            if found:
                return found
            self._lives()
            left_s = until - time.monotonic()
            if connected and left_s < ALONE_S - SETTLE_S:
                return connected
            if left_s <= 0:
                raise WorkersLost(
                    "no worker is left",
                    evidence=f"{len(without)} ended, and none connected within {ALONE_S:g} s",
                    fix="read their logs: tail worker-*.txt in the folder of the run",
                )
            time.sleep(_LOOK_S)

    def places(self, addresses: Collection[str]) -> dict[str, Equipment]:
        """What each has, in the order of their numbers; those that do not answer are left out."""
        told = self._client.sync(self._look, list(addresses))
        return {address: place for _, address, place in sorted(told, key=lambda each: each[:2])}

    async def _look(self, addresses: list[str]) -> list[tuple[int, str, Equipment]]:
        async def look(address: str) -> tuple[int, str, Equipment] | None:
            try:
                said = await asyncio.wait_for(getattr(self._client.rpc(address), LOOK)(), _LOOK_LIMIT_S)
            except (OSError, asyncio.TimeoutError):
                return None
            number, place = said
            return number, address, read(Equipment, place)

        answers = await asyncio.gather(*map(look, addresses))
        return [said for said in answers if said is not None]

    def close(self, addresses: Collection[str]) -> ShareAnswer:
        """Have them free what they hold; what cannot is ended soon anyway."""
        limit_s = CLEAN_UP_S + _LOOK_LIMIT_S
        asked: dict[str, dict[str, Any]] = {address: {} for address in set(self.connected()).intersection(addresses)}
        answers = self._client.sync(self._ask_all, CLOSE, asked, callback_timeout=limit_s)
        return join_answers(answers)
