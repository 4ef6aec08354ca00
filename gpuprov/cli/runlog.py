"""A file for every run, with times, whatever the terminal shows; an unexpected error leaves its traceback there."""

from __future__ import annotations

import contextlib
import os
import shlex
import threading
import time
import traceback
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov import __version__
from gpuprov.core.excerpt import shorten
from gpuprov.core.printable import continued, printable
from gpuprov.core.redact import hide_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpuprov.core.reporter import Reporter

KEPT_LOGS = 200


def log_folder(environment: Mapping[str, str], *, uid: int) -> Path:
    """Where logs go: /var/log/gpuprov for root, else the user's state folder."""
    if uid == 0:
        return Path("/var/log/gpuprov")
    state = environment.get("XDG_STATE_HOME") or f"{environment.get('HOME', '/tmp')}/.local/state"  # noqa: S108
    return Path(state) / "gpuprov" / "log"


class RunLog:
    """A reporter that writes to a file; where the file cannot be made, `path` is None and nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = threading.Lock()

    @classmethod
    def begin(cls, folder: Path, arguments: Sequence[str]) -> RunLog:
        """Make the file, note the command in it, without secrets, and remove the oldest ones."""
        stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%f")
        path = folder / f"{stamp}-{os.getpid()}.log"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
        except OSError:
            return cls(None)
        for old in sorted(folder.glob("*.log"))[:-KEPT_LOGS]:
            with contextlib.suppress(OSError):
                old.unlink()
        log = cls(path)
        log.note(f"gpuprov {__version__}: {shlex.join(hide_in_words(arguments))}")
        return log

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Write when it begins and ends."""
        started = time.monotonic()
        self.note(f"begin {name}")
        end = "failed"
        try:
            yield
            end = "done"
        finally:
            self.note(f"{end} {name} after {time.monotonic() - started:.3f} s")

    def node(self, name: str, state: str) -> None:
        """Write it."""
        self.note(f"{name}: {state}")

    def warn(self, text: str) -> None:
        """Write it."""
        self.note(f"warning: {text}")

    def error(self, error: BaseException) -> None:
        """Write the traceback."""
        self.note("".join(traceback.format_exception(error)).rstrip())

    def note(self, text: str) -> None:
        """Write it; a log that cannot be written must not stop the run."""
        if self.path is None:
            return
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        with self._lock, contextlib.suppress(OSError), self.path.open("a", encoding="utf-8") as file:
            file.write(f"{now} {continued(shorten(printable(text)))}\n")


class Both:
    """Passes everything on to two reporters."""

    def __init__(self, first: Reporter, second: Reporter) -> None:
        self._listeners = (first, second)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Pass on."""
        first, second = self._listeners
        with second.phase(name), first.phase(name):
            yield

    def node(self, name: str, state: str) -> None:
        """Pass on."""
        for listener in self._listeners:
            listener.node(name, state)

    def note(self, text: str) -> None:
        """Pass on."""
        for listener in self._listeners:
            listener.note(text)

    def warn(self, text: str) -> None:
        """Pass on."""
        for listener in self._listeners:
            listener.warn(text)
