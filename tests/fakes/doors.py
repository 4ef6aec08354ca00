"""Doors of fake engines, one of which may hang for as long as a test likes."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import HostNotReady
from gpuprov.machine.survey import EngineDoor

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver

PATIENCE_S = 60.0  # after which whoever waits for a hung engine is let through, to fail


def door_of(driver: Driver, *, installed: bool = True) -> EngineDoor:
    """An engine that answers."""
    return EngineDoor(name=driver.name, open=lambda: driver, installed=lambda: installed)


def door_without(name: str, *, installed: bool) -> EngineDoor:
    """An engine that does not run."""

    def refuse() -> Driver:
        raise HostNotReady(f"{name} is not running on this machine", evidence="no socket", fix="gpuprov host prepare")

    return EngineDoor(name=name, open=refuse, installed=lambda: installed)


class AnswersOfTheRest(SimpleQueue[Any]):
    """What a survey waits at: its limit is over once every engine but those in `HUNG` has answered, however slow."""

    HUNG = ("ask docker",)  # names of the survey's threads
    _LOOK_S = 0.002

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The next answer, while there is one to come."""
        assert block
        assert timeout is not None
        while True:
            asking = any(
                thread.name.startswith("ask ") and thread.name not in self.HUNG for thread in threading.enumerate()
            )
            try:
                return super().get(timeout=self._LOOK_S)
            except Empty:
                if not asking:
                    raise


class HungEngine:
    """An engine whose daemon takes connections and says nothing until it is released."""

    def __init__(self, name: str) -> None:
        self.door = EngineDoor(name=name, open=self._open, installed=lambda: True)
        self._released, self._asked, self._left = Event(), Event(), Event()

    def release(self) -> None:
        """End it."""
        self._released.set()

    @property
    def hangs(self) -> bool:
        """Whether somebody has asked and still waits, so that whoever has gone on did not wait for it."""
        return self._asked.wait(PATIENCE_S) and not self._left.is_set()

    def _open(self) -> Driver:
        self._asked.set()
        self._released.wait(PATIENCE_S)
        self._left.set()
        raise HostNotReady(f"{self.door.name} has hung up", evidence="no answer", fix="gpuprov doctor")
