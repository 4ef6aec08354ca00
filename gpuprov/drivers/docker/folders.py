"""Which folders fresh containers have, asked once for all that are made alike: Docker mounts one for each answer."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable


class Folders:
    """Answers, by what decides about a container's folders while it has no files of its own: its image and mounts."""

    def __init__(self) -> None:
        self._answers: dict[tuple[Hashable, str], bool] = {}
        self._lock = Lock()

    def has(self, made_from: Hashable, folder: str, ask: Callable[[str], bool]) -> bool:
        """Whether a container that is made from this has the folder; `ask` is called if no other has been asked."""
        with self._lock:
            key = (made_from, folder)
            if key not in self._answers:
                self._answers[key] = ask(folder)
            return self._answers[key]
