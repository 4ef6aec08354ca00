"""Who follows a command that takes long: hears what it says while it runs, and may end it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HEAR_S: Final = 0.25


def _ignore(_lines: Sequence[str]) -> None:
    """Hear nothing."""


@dataclass(frozen=True, kw_only=True)
class Follower:
    """What a command's caller wants of it while it runs.

    Attributes:
        hear: Is told the lines that it has written since the last time, those of a moment together; the last ones
            before the command counts as ended.
        stop: Once this is set, the command is ended.
    """

    hear: Callable[[Sequence[str]], object] = _ignore
    stop: threading.Event = field(default_factory=threading.Event)


class Ear:
    """Finds the lines that were not there before in all that each stream has said so far."""

    def __init__(self) -> None:
        self._heard: dict[int, int] = {}  # bytes of each stream
        self._lines: dict[int, int] = {}

    def new_lines(self, *streams: bytes | None) -> list[str]:
        """The complete lines since the last call, those of the first stream first."""
        found: list[str] = []
        for number, said in enumerate(streams):
            content = said or b""
            begin, end = self._heard.get(number, 0), content.rfind(b"\n") + 1
            if end > begin:
                lines = content[begin:end].decode(errors="replace").splitlines()
                found += lines
                self._heard[number] = end
                self._lines[number] = self._lines.get(number, 0) + len(lines)
        return found

    def last_lines(self, *streams: str) -> list[str]:
        """The lines since the last call, of all that a command has said that has ended."""
        return [line for number, said in enumerate(streams) for line in said.splitlines()[self._lines.get(number, 0) :]]
