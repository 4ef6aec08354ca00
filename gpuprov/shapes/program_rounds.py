"""What the workers of a run tell each other over Dask's connections, which carry it as plain values with bytes."""

from __future__ import annotations

from gpuprov.shapes.base import Shape


class Equipment(Shape, frozen=True, kw_only=True):
    """What a worker has.

    Attributes:
        node: The machine.
        gpu: The UUID of its GPU; None without one.
        name: Of the GPU.
        target: What programs are built for there.
        block_size: Threads of a block.
        rate: How fast it is, compared with the others.
    """

    node: str
    gpu: str | None
    name: str | None
    target: str
    block_size: int
    rate: float


class RowSlice(Shape, frozen=True, kw_only=True):
    """Some rows of a table, from `start` to before `stop`; `number` tells it from all others of a run."""

    number: int
    start: int
    stop: int


class RoundShare(Shape, frozen=True, kw_only=True):
    """What a worker does of a round, and whom it asks for the rest.

    Attributes:
        address: Of the worker.
        slices: That it works on.
        others: Whom it asks; their slices come after its own, in this order.
    """

    address: str
    slices: tuple[RowSlice, ...]
    others: tuple[RoundShare, ...] = ()


class SliceResult(Shape, frozen=True, kw_only=True):
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


class ShareAnswer(Shape, frozen=True, kw_only=True):
    """What came of a share: the results that are there, and why the others are not.

    Attributes:
        parts: Results.
        lost: Addresses of workers that did not answer.
        failed: The parts of the first error of the program: what, evidence and fix.
    """

    parts: tuple[SliceResult, ...] = ()
    lost: tuple[str, ...] = ()
    failed: tuple[str, str, str] | None = None
