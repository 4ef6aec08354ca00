"""What the workers of a round tell each other: who does what, as a tree, and what came of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuwork.errors import BatchError
from gpuwork.programs.slices import RowSlice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FAN_OUT: Final = 3  # so many others a worker hands the state on to, and merges the results of
_SHOWN: Final = 10


class NotWhole(BatchError):
    """A round does not have the result of each slice once."""


@dataclass(frozen=True, kw_only=True)
class RoundShare:
    """What a worker does of a round, and whom it asks for the rest.

    Attributes:
        address: Of the worker.
        slices: That it works on.
        others: Whom it asks; their slices come after its own, in this order.
    """

    address: str
    slices: tuple[RowSlice, ...]
    others: tuple[RoundShare, ...] = ()

    def as_message(self) -> dict[str, Any]:
        """As Dask sends it."""
        return {
            "address": self.address,
            "slices": [asdict(part) for part in self.slices],
            "others": [other.as_message() for other in self.others],
        }

    @classmethod
    def of_message(cls, told: Mapping[str, Any]) -> RoundShare:
        """As it was sent."""
        return cls(
            address=told["address"],
            slices=tuple(RowSlice(**part) for part in told["slices"]),
            others=tuple(map(cls.of_message, told["others"])),
        )


@dataclass(frozen=True, kw_only=True)
class SliceResult:
    """The result over some slices that follow each other.

    Attributes:
        round: Counted from 0.
        numbers: Of the slices, in order.
        content: Encoded; empty where nothing was asked for but to take the slices.
        seconds: How long each of the slices took, in the order of the numbers.
    """

    round: int
    numbers: tuple[int, ...]
    content: bytes
    seconds: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ShareAnswer:
    """What came of a share: the results that are there, and why the others are not.

    Attributes:
        parts: Results.
        lost: Addresses of workers that did not answer.
        failed: The parts of the first error of the program: what, evidence and fix.
    """

    parts: tuple[SliceResult, ...] = ()
    lost: tuple[str, ...] = ()
    failed: tuple[str, str, str] | None = None

    def as_message(self) -> dict[str, Any]:
        """As Dask sends it."""
        return {"parts": [asdict(part) for part in self.parts], "lost": list(self.lost), "failed": self.failed}

    @classmethod
    def of_message(cls, told: Mapping[str, Any]) -> ShareAnswer:
        """As it was sent."""
        lists = ("numbers", "seconds")
        parts = tuple(SliceResult(**{**part, **{name: tuple(part[name]) for name in lists}}) for part in told["parts"])
        failed = None if told["failed"] is None else tuple(told["failed"])
        return cls(parts=parts, lost=tuple(told["lost"]), failed=failed)


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
