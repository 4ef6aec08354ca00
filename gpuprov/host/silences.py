"""Engines that hung a moment ago are remembered, so that not every command waits for them as long as the first one."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

RUN_FOLDER = Path("/run/gpuprov")  # root's; other users have their own
KEPT_S: Final = 120.0
PROBE_S: Final = 1.0  # meanwhile an engine that answers within this time counts again


def silent_since_s(engine: str) -> float | None:
    """When an engine did not answer in full time, in seconds since 1970; None if that is long ago, or never was."""
    folder = _folder()
    if folder is not None:
        with suppress(OSError):
            since_s = (folder / _name(engine)).lstat().st_mtime
            if 0 <= time.time() - since_s < KEPT_S:
                return since_s
    return None


def remember_silence(engine: str) -> None:
    """Write down that it did not answer; who cannot waits again the next time."""
    folder = _folder()
    if folder is not None:
        with suppress(OSError):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            (folder / _name(engine)).touch()


def forget_silence(engine: str) -> None:
    """It has answered."""
    folder = _folder()
    if folder is not None:
        with suppress(OSError):
            (folder / _name(engine)).unlink(missing_ok=True)


def _name(engine: str) -> str:
    return f"silent-{engine}"


def _folder() -> Path | None:
    if os.geteuid() == 0:
        return RUN_FOLDER
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(own) / "gpuprov" if own.startswith("/") else None
