"""The member protocol: one JSON object a line, of a kind that both ends know, with nothing else in it.

The member says hello and gets a request. Then it tells its progress, and ends with a result or an error. The next
request may come then. Both ends say a beat now and then while one is served: who hears nothing for SILENCE_S takes the
other one for gone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.excerpt import excerpt
from gpuprov.core.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROTOCOL: Final = 4
BEAT_S: Final = 5.0
SILENCE_S: Final = 30.0
KEPT_S: Final = 10.0  # for how long a member that serves nothing is asked again; it ends after SILENCE_S
MOST_LINE_BYTES: Final = 16 * MIB
MOST_BYTES: Final = 256 * MIB  # of what a request comes to
KINDS: Final[Mapping[str, Mapping[str, type]]] = {
    "hello": {"protocol": int, "version": str, "host": str},
    "request": {"verb": str, "host": str, "document": dict},
    "beat": {},
    "phase": {"name": str, "state": str},
    "node": {"name": str, "state": str},
    "note": {"text": str},
    "warn": {"text": str},
    "result": {"document": dict},
    "error": {"what": str, "evidence": str, "fix": str, "exit_code": int},
}


class BadLine(ValueError):
    """It is no line of this protocol."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """One line, as it was meant."""

    kind: str
    content: Mapping[str, Any]


def render_line(kind: str, **content: object) -> bytes:
    """A line, with its end."""
    return json.dumps({"kind": kind, **content}, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def parse_line(line: bytes) -> Message:
    """What a line says.

    Raises:
        BadLine: It is not JSON, of no known kind, or lacks or adds a key.
    """
    try:
        said = json.loads(line.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {_shown(line)}") from error
    kind = said.pop("kind", None) if isinstance(said, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise BadLine(f"no line of this protocol: {_shown(line)}")
    wanted = KINDS[kind]
    if said.keys() != wanted.keys():
        raise BadLine(f"a line `{kind}` has {', '.join(wanted) or 'no keys'}: {_shown(line)}")
    for key, kept in wanted.items():
        if type(said[key]) is not kept:
            raise BadLine(f"`{key}` of a line `{kind}` is not {kept.__name__}: {_shown(line)}")
    return Message(kind=kind, content=said)


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

    def feed(self, piece: bytes) -> Iterator[Message]:
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


def _refuse_constant(name: str) -> float:
    raise ValueError(name)
