"""The member protocol: one JSON object a line, of a kind that both ends know (shapes/lines.py).

The member says hello and gets a request. Then it tells its progress, and ends with a result or an error. The next
request may come then. Both ends say a beat now and then while one is served: who hears nothing for SILENCE_S takes the
other one for gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from gpuprov.core.excerpt import excerpt
from gpuprov.core.units import MIB
from gpuprov.shapes.base import encode
from gpuprov.shapes.lines import AnyLine

if TYPE_CHECKING:
    from collections.abc import Iterator

PROTOCOL: Final = 7
BEAT_S: Final = 5.0
SILENCE_S: Final = 30.0
KEPT_S: Final = 10.0  # for how long a member that serves nothing is asked again; it ends after SILENCE_S
MOST_LINE_BYTES: Final = 16 * MIB
MOST_BYTES: Final = 256 * MIB  # of what a request comes to
_DECODER: Final[msgspec.json.Decoder[AnyLine]] = msgspec.json.Decoder(AnyLine)


class BadLine(ValueError):
    """It is no line of this protocol."""


def render_line(line: AnyLine) -> bytes:
    """A line, with its end."""
    return encode(line) + b"\n"


def parse_line(line: bytes) -> AnyLine:
    """What a line says; the document in it is read by whoever it is for.

    Raises:
        BadLine: It is not JSON, of no known kind, or lacks or adds a key.
    """
    try:
        return _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"no line of this protocol: {excerpt(str(error))}: {_shown(line)}") from error


class Lines:
    """Cuts what comes in pieces into lines, and refuses more than there may be."""

    def __init__(self, *, most_line_bytes: int = MOST_LINE_BYTES, most_bytes: int = MOST_BYTES) -> None:
        self._most_line_bytes = most_line_bytes
        self._left_bytes = most_bytes
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    @property
    def begun(self) -> bool:
        """Whether a line has begun and not ended."""
        return self._begun_bytes > 0

    def feed(self, piece: bytes) -> Iterator[AnyLine]:
        """The messages that are complete now.

        Raises:
            BadLine: A line is too long, is no line of this protocol, or there are too many.
        """
        self._left_bytes -= len(piece)
        if self._left_bytes < 0:
            raise BadLine("more was sent than this protocol allows")
        *complete, rest = piece.split(b"\n")
        for end in complete:
            self._add(end)
            line, self._begun, self._begun_bytes = b"".join(self._begun), [], 0
            yield parse_line(line)
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._begun.append(piece)
        self._begun_bytes += len(piece)
        if self._begun_bytes > self._most_line_bytes:
            raise BadLine(f"a line has more than {self._most_line_bytes} bytes: {_shown(self._begun[0])}")


def _shown(line: bytes) -> str:
    return excerpt(line[:1000].decode(errors="replace"))
