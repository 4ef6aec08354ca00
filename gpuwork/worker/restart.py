"""Ends the worker between two tasks when the code of its project has changed, so that it begins anew with that."""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING, Final

from celery.worker import state

from gpuwork.worker.project import sign_code

if TYPE_CHECKING:
    from pathlib import Path
    from threading import Event

    Signed = frozenset[tuple[str, int, int]]

_LOOK_S: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class RestartOnChange:
    """Looks at the code of a project; without one it does nothing."""

    def __init__(self, project: Path | None, signed: Signed | None) -> None:
        """Keep the folder, and what `sign_code` said of it before it was imported."""
        self._project = project
        self._signed = signed
        self.has_changed = False  # then nothing more is taken from the queue
        self.wanted = False

    def until(self, stop: Event) -> None:
        """Look until it has changed, and end the worker as soon as it is idle."""
        while self._project is not None and not stop.wait(_LOOK_S):
            self.has_changed = self.has_changed or sign_code(self._project) != self._signed
            if self.has_changed and not tuple(state.active_requests):
                self.wanted = True
                _LOG.warning("the code of %s has changed: the worker restarts", self._project)
                os.kill(os.getpid(), signal.SIGTERM)
                return
