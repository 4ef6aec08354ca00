"""What a run printed, a piece at a time."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprov.shapes.limits import PIECE_BYTES
from gpuwork.untrusted_files import read_part

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Part of a log.

    Attributes:
        text: What it has there; bytes that are no UTF-8 are replaced.
        next: Where the next piece begins.
        size: Of the whole log, in bytes.
    """

    text: str
    next: int
    size: int


def read_piece(log: Path, start: int, *, is_whole: bool) -> Piece:
    """The log from byte `start` on; a character that is not yet there in full is left for the next piece.

    Args:
        log: The file; one that is not there is empty.
        start: Where to begin.
        is_whole: Nothing more will be written, so that half a character at the end is one for good.
    """
    content, size = read_part(log, start=start, most_bytes=PIECE_BYTES) or (b"", 0)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(content, final=is_whole and start + len(content) >= size)
    return Piece(text=text, next=start + len(content) - len(decoder.getstate()[0]), size=size)
