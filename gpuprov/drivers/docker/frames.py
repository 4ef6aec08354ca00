"""Docker's two streams in one."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpuprov.drivers.base import Stream

_HEAD_BYTES = 8
_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}


def read_frames(read: Callable[[int], bytes]) -> Iterator[tuple[Stream, bytes]]:
    """The pieces of Docker's two streams in one: a byte that says which, three zeros, four bytes of length, the piece.

    Args:
        read: Gives that many bytes; fewer at the end only.
    """
    while len(head := read(_HEAD_BYTES)) == _HEAD_BYTES:
        kind, length = struct.unpack(">BxxxL", head)
        yield _STREAMS.get(kind, "stdout"), read(length)
