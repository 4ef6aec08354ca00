"""What the workers of a round tell each other: who does what, as a tree, and what came of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.program_rounds import RoundShare, RowSlice, ShareAnswer, SliceResult
from gpuwork.errors import BatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpuprov.shapes.program_rounds import RowSlice

FAN_OUT: Final = 3  # so many others a worker hands the state on to, and merges the results of
_SHOWN: Final = 10


class NotWhole(BatchError):
    """A round does not have the result of each slice once."""


def plan_shares(holders: Sequence[tuple[str, Sequence[RowSlice]]]) -> RoundShare:
    """A tree over workers with their slices, whose order it keeps."""
    (address, slices), *rest = holders
    size = -(-len(rest) // FAN_OUT)
    groups = [rest[start : start + size] for start in range(0, len(rest), size)] if rest else []
    return RoundShare(address=address, slices=tuple(slices), others=tuple(map(plan_shares, groups)))


def join_answers(answers: Iterable[ShareAnswer]) -> ShareAnswer:
    """All that several came to."""
    answers = list(answers)
    return ShareAnswer(
        parts=tuple(part for answer in answers for part in answer.parts),
        lost=tuple(address for answer in answers for address in answer.lost),
        failed=next((answer.failed for answer in answers if answer.failed is not None), None),
    )


def follow_each_other(parts: Sequence[SliceResult]) -> list[list[SliceResult]]:
    """Results of neighbouring slices together, in the order of the slices."""
    groups: list[list[SliceResult]] = []
    for part in sorted(parts, key=lambda one: one.numbers):
        if groups and groups[-1][-1].numbers[-1] + 1 == part.numbers[0]:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def find_missing(parts: Iterable[SliceResult], wanted: Iterable[RowSlice]) -> list[RowSlice]:
    """The slices that no result is of."""
    there = {number for part in parts for number in part.numbers}
    return [one for one in wanted if one.number not in there]


def require_whole(parts: Sequence[SliceResult], number: int, wanted: Iterable[int]) -> None:
    """Refuse results that are not those of this round, over every slice once.

    Raises:
        NotWhole: They are not.
    """
    counted = Counter(one for part in parts for one in part.numbers)
    wanted = set(wanted)
    odd = {one for one, count in counted.items() if count > 1} | (counted.keys() - wanted)
    other = {part.round for part in parts} - {number}
    missing = wanted - counted.keys()
    if odd or other or missing:
        raise NotWhole(
            f"round {number} is incomplete",
            evidence=f"missing slices: {sorted(missing)[:_SHOWN]}; twice or unknown: {sorted(odd)[:_SHOWN]}; "
            f"of other rounds: {sorted(other)[:_SHOWN]}",
            fix="run the same command again, and report this",
        )
