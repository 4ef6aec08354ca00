"""Folders of the user's own: where they are, and that they can be made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Mapping


def home_folder() -> Path:
    """The user's.

    Raises:
        HostNotReady: Nothing says where it is.
    """
    try:
        return Path.home()
    except RuntimeError as error:
        raise HostNotReady(
            "this user has no home folder",
            evidence=f"HOME is not set, and uid {os.getuid()} is not in /etc/passwd",
            fix="export HOME=FOLDER  # one that this user can write to",
        ) from error


def own_folder(variable: str, usual: str, environment: Mapping[str, str] = os.environ) -> Path:
    """A folder that a variable of the XDG standard names, else the usual one below the home folder.

    Raises:
        HostNotReady: Nothing says where it is.
    """
    named = environment.get(variable)
    if named:
        return Path(named)
    return Path(environment.get("HOME") or home_folder()) / usual


def make_own_folder(folder: Path, *, variable: str) -> None:
    """Make a folder that only this user can read, with those above it.

    Raises:
        HostNotReady: It cannot be made; `variable` is what moves it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HostNotReady(
            "a folder of this user cannot be made",
            evidence=str(error),
            fix=f"export {variable}=FOLDER  # one that this user can write to",
        ) from error
