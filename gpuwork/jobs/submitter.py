"""Who hands jobs in, as far as that can be known: told by gpuprov, which knows who called it, or found here.

The folder of jobs belongs to the account of all jobs, so whoever can submit can write another name there.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal

from gpuwork.shared_folder import write_file
from gpuwork.strict import exactly, matching, optional, parse_strict_json, read_fields
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE: Final = "submitter.json"
VARIABLE: Final = "GPUWORK_SUBMITTER"
_MOST_BYTES: Final = 1000
_FIELDS: Final = {
    "name": matching(r"[A-Za-z0-9_][A-Za-z0-9_.@$-]{0,63}"),
    "host": matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"),
    "known_by": exactly("login", "user", "claim"),
    "ssh_from": optional(matching(r"[0-9A-Fa-f.:%a-z]{2,64}")),
}


@dataclass(frozen=True, kw_only=True)
class Submitter:
    """Who handed a submission in.

    Attributes:
        name: Of an account.
        host: Where that account is.
        known_by: That of who logged in, as a kernel says; the user of the process; or only a claim, as sudo's variable.
        ssh_from: The address that ssh's variable names; a claim.
    """

    name: str
    host: str
    known_by: Literal["login", "user", "claim"]
    ssh_from: str | None


def find_submitter(environment: Mapping[str, str] = os.environ) -> Submitter | None:
    """What the caller told, else whoever runs this process; None if that cannot be read."""
    try:
        if VARIABLE in environment:
            return parse_submitter(environment[VARIABLE].encode())
        sudo = environment.get("SUDO_USER")
        told = {
            "name": sudo or pwd.getpwuid(os.getuid()).pw_name,
            "host": platform.node(),
            "known_by": "claim" if sudo else "user",
            "ssh_from": environment.get("SSH_CONNECTION", "").partition(" ")[0] or None,
        }
        return Submitter(**read_fields(told, _FIELDS))
    except (KeyError, ValueError):
        return None


def parse_submitter(content: bytes) -> Submitter:
    """Who submitted; raises ValueError for anything else."""
    if len(content) > _MOST_BYTES:
        raise ValueError("is too long")
    return Submitter(**read_fields(parse_strict_json(content), _FIELDS))


def read_submitter(folder: Path) -> Submitter | None:
    """Who handed in what is in a folder; None where nobody is told, as of an earlier version."""
    content = read_limited(folder / FILE, limit=_MOST_BYTES)
    try:
        return None if content is None else parse_submitter(content)
    except ValueError:
        return None


def write_submitter(folder: Path, submitter: Submitter | None) -> None:
    """Keep who it is."""
    if submitter is not None:
        write_file(folder / FILE, json.dumps(asdict(submitter)) + "\n")
