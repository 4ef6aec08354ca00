"""Drives a run: rounds of iterations until the program says that it is done."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.base import as_values
from gpuprov.shapes.program_answers import Updated
from gpuwork.programs.balance import Balance
from gpuwork.programs.member import BUILD, ROUND, TAKE
from gpuwork.programs.members import Members, WorkersLost
from gpuwork.programs.process import ProgramError
from gpuwork.programs.rounds import find_missing, follow_each_other, plan_shares, require_whole
from gpuwork.programs.seat import INITIALISE_S
from gpuwork.programs.slices import plan_slices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.shapes.program_rounds import Equipment, RowSlice, ShareAnswer, SliceResult
    from gpuwork.programs.process import ProgramProcess

MOST_DEATHS: Final = 3  # of workers that had the same slice


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """What a run came to.

    Attributes:
        iterations: How many rounds there were.
        seconds: From the first to the last of them.
        state: The last global state, encoded.
        result: Of the last round, encoded.
        holders: The worker that had each slice last.
        moved: How many slices another worker had to take over.
    """

    iterations: int
    seconds: float
    state: bytes
    result: bytes
    holders: Mapping[RowSlice, str]
    moved: int


class Leader:
    """Has the workers of a run iterate.

    Args:
        members: The workers.
        process: Runs the program's Python here, with the dataset opened.
        tell: Is told how many rounds are done.
    """

    def __init__(self, members: Members, process: ProgramProcess, *, tell: Callable[[int], None]) -> None:
        self._members = members
        self._process = process
        self._tell = tell
        self._holders: dict[RowSlice, str] = {}
        self._deaths: dict[int, int] = defaultdict(int)
        self._moved = 0
        self._cost_s = 0.0
        self._balance = Balance(self._cost_s)

    def build(self, places: Mapping[str, Equipment]) -> None:
        """Have the program built on one worker for each kind of GPU.

        Raises:
            ProgramError: The compiler complains, told once.
        """
        one_each = {place.target: address for address, place in places.items()}
        for answer in self._members.ask_all(BUILD, {address: {} for address in one_each.values()}).values():
            _raise_failure(answer)
            if answer.lost:
                raise WorkersLost(
                    "the worker that was building the program was lost",
                    evidence=answer.lost[0],
                    fix="tail worker-*.txt",
                )

    def divide(self, rows: int, rates: Mapping[str, float]) -> None:
        """Have each worker take its slice of the rows.

        Args:
            rows: How many there are.
            rates: How fast each worker is, by its address.
        """
        first = 1 + max((part.number for part in self._holders), default=-1)
        planned = plan_slices(rows, [*rates.values()], first=first)
        self._holders = {part: address for part, address in zip(planned, rates, strict=True) if part is not None}
        begun = time.monotonic()
        self._whole(-1, TAKE, {"before": first})
        self._cost_s = time.monotonic() - begun
        self._balance = Balance(self._cost_s)

    def iterate(self) -> RunOutcome:
        """Rounds, until the program is done."""
        state = bytes(self._process.ask("init_state", limit_s=INITIALISE_S, what="make its first state")[1][0])
        begun = time.monotonic()
        number, is_done, result = 0, False, b""
        while not is_done:
            parts = self._whole(number, ROUND, {"number": number, "state": state})
            result = self._merge(parts)
            updated, (after,) = self._process.learn(Updated, "update", state, result, what="update its state")
            number, state, is_done = number + 1, bytes(after), updated.done
            self._tell(number)
            if not is_done:
                self._divide_better(parts)
        return RunOutcome(
            iterations=number, seconds=time.monotonic() - begun, state=state, result=result, holders=self._holders,
            moved=self._moved,
        )  # fmt: skip

    def _divide_better(self, parts: Sequence[SliceResult]) -> None:
        """Divide the rows by how long each worker takes for its own, once that is worth it."""
        rows: dict[str, int] = defaultdict(int)
        seconds: dict[str, float] = defaultdict(float)
        took = {number: spent for part in parts for number, spent in zip(part.numbers, part.seconds, strict=True)}
        for part, address in self._holders.items():
            rows[address] += part.stop - part.start
            seconds[address] += took[part.number]
        self._balance.add(rows, seconds)
        rates = self._balance.better_rates()
        if rates is not None:
            self.divide(sum(rows.values()), rates)

    def _whole(self, number: int, verb: str, given: Mapping[str, Any]) -> list[SliceResult]:
        """The results of all slices, those of workers that died meanwhile from others."""
        parts: list[SliceResult] = []
        while missing := find_missing(parts, self._holders):
            by_address: dict[str, list[RowSlice]] = {}
            for part in missing:
                by_address.setdefault(self._holders[part], []).append(part)
            share = plan_shares([*by_address.items()])
            answer = self._members.ask(share.address, verb, share=as_values(share), **given)
            _raise_failure(answer)
            parts += answer.parts
            if answer.lost:
                self._replace(answer.lost)
            elif find_missing(answer.parts, missing):
                break
        require_whole(parts, number, (part.number for part in self._holders))
        return parts

    def _replace(self, lost: Sequence[str]) -> None:
        """Give the slices of workers that are gone to those with the fewest rows."""
        alive = self._members.alive(without=lost)
        rows = dict.fromkeys(alive, 0)
        orphans = []
        for part, address in self._holders.items():
            if address in rows:
                rows[address] += part.stop - part.start
            else:
                orphans.append(part)
        for part in orphans:
            self._deaths[part.number] += 1
            if self._deaths[part.number] >= MOST_DEATHS:
                raise ProgramError(
                    f"{MOST_DEATHS} workers died while they had the rows {part.start} to {part.stop - 1}",
                    evidence=f"the last was {self._holders[part]}",
                    fix="see what the kernel and the workers logged: dmesg | tail; tail worker-*.txt",
                )
            address = min(rows, key=lambda one: rows[one])
            self._holders[part] = address
            rows[address] += part.stop - part.start
            self._moved += 1
        self._balance = Balance(self._cost_s)

    def _merge(self, parts: Sequence[SliceResult]) -> bytes:
        (group,) = follow_each_other(parts)
        if len(group) == 1:
            return group[0].content
        return bytes(self._process.ask("merge", *(part.content for part in group), what="aggregate results")[1][0])


def _raise_failure(answer: ShareAnswer) -> None:
    if answer.failed is not None:
        what, evidence, fix = answer.failed
        raise ProgramError(what, evidence=evidence, fix=fix)
