"""What a worker asks root's program of its node before a run has the GPU (`gpuwork.scrubber`)."""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING, Final

from gpuwork.scrubber import FOLDER, MOST_BYTES, OK, SOCKET, file_name
from gpuwork.untrusted_files import has_entry, read_limited

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PATIENCE_S: Final = 10.0  # a service that was killed is back by then
_LOOK_S: Final = 0.2
_MOST: Final = 300  # characters of a fault


class Scrubbing:
    """The GPU of a worker, whose memory is overwritten between people."""

    def __init__(self, gpu: str, *, folder: Path = FOLDER) -> None:
        """Keep its UUID, and where root's program has its socket and says what is wrong."""
        self._gpu = gpu
        self._folder = folder

    def find_fault(self) -> str:
        """Why the GPU may not be used, in a line; empty where it may."""
        if not has_entry(self._folder / SOCKET):
            return "the service gpuwork-scrub does not run"
        content = read_limited(self._folder / file_name(self._gpu), limit=MOST_BYTES) or b""
        return "".join(filter(_is_plain, content.decode(errors="replace").strip()))[:_MOST]

    def prepare(self, owner: str, *, is_over: Callable[[], bool]) -> str:
        """Why somebody may not have the GPU, in words; empty once they may.

        Args:
            owner: Who is to have it; empty where nobody knows.
            is_over: Whether the worker ends, which nobody then waits for.
        """
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                answer = self._ask(f"{self._gpu} {owner}", is_over)
            except OSError as error:
                answer, why = "", error.strerror or str(error)
            else:
                why = "it said nothing"
            if answer:
                return "" if answer == OK else answer
            if is_over():
                return "the worker ends"
            if time.monotonic() >= until:
                return f"the service gpuwork-scrub does not answer: {why}"
            time.sleep(_LOOK_S)

    def _ask(self, question: str, is_over: Callable[[], bool]) -> str:
        """What it says; empty where it ends before it does, or the worker does."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
            asked.connect(str(self._folder / SOCKET))
            asked.send(question.encode())
            while not is_over():
                if select.select([asked], [], [], _LOOK_S)[0]:
                    return asked.recv(MOST_BYTES).decode(errors="replace")
        return ""


def _is_plain(character: str) -> bool:
    return character.isprintable() and character not in "{}"
