"""Who hands jobs in: told by gpuprov, which knows who called it, or found here."""

from __future__ import annotations

import os
import platform
import pwd
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import encode, read
from gpuprov.shapes.submitter import VARIABLE, Submitter
from gpuwork.shared_folder import write_file
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE: Final = "submitter.json"
_MOST_BYTES: Final = 1000


def find_submitter(environment: Mapping[str, str] = os.environ) -> Submitter | None:
    """What the caller told, else whoever runs this process; None if that cannot be read."""
    try:
        if VARIABLE in environment:
            return read(Submitter, environment[VARIABLE])
        sudo = environment.get("SUDO_USER")
        told = {
            "name": sudo or pwd.getpwuid(os.getuid()).pw_name,
            "host": platform.node(),
            "known_by": "claim" if sudo else "user",
            "ssh_from": environment.get("SSH_CONNECTION", "").partition(" ")[0] or None,
        }
        return read(Submitter, told)
    except (KeyError, ValueError):
        return None


def read_submitter(folder: Path) -> Submitter | None:
    """Who handed in what is in a folder; None where nobody is told, as of an earlier version."""
    content = read_limited(folder / FILE, limit=_MOST_BYTES)
    try:
        return None if content is None else read(Submitter, content)
    except ValueError:
        return None


def write_submitter(folder: Path, submitter: Submitter | None) -> None:
    """Keep who it is."""
    if submitter is not None:
        write_file(folder / FILE, f"{encode(submitter).decode()}\n")
