"""Who calls gpuprov on this machine, as far as that can be known; told to the program that takes jobs."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from gpuprov.shapes.submitter import Submitter

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOGIN: Final = Path("/proc/self/loginuid")
_NO_LOGIN: Final = 2**32 - 1
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@$-]{0,63}", re.ASCII)
_ADDRESS: Final = re.compile(r"[0-9A-Fa-f.:%a-z]{2,64}", re.ASCII)


def get_submitter(
    host: str, *, environment: Mapping[str, str] = os.environ, login: Path = _LOGIN, user: int | None = None
) -> Submitter:
    """The account that logged in or runs this process; else, as a claim, who sudo says it is.

    Args:
        environment: Of this process; what it says is a claim.
        login: What the kernel keeps of who logged in, also over sudo and su.
        user: Of this process, if another one than its own is to be believed.
    """
    user = os.getuid() if user is None else user
    number = _read_login(login)
    name = _name_of(user if number is None else number)
    known_by: Literal["login", "user", "claim"] = "user" if number is None else "login"
    sudo = environment.get("SUDO_USER", "")
    if number is None and user == 0 and _NAME.fullmatch(sudo):
        name, known_by = sudo, "claim"
    address = environment.get("SSH_CONNECTION", "").partition(" ")[0]
    return Submitter(name=name, host=host, known_by=known_by, ssh_from=address if _ADDRESS.fullmatch(address) else None)


def _read_login(path: Path) -> int | None:
    """The account that logged in; None where nobody did, as in a container."""
    try:
        number = int(path.read_text())
    except (OSError, ValueError):
        return None
    return None if number == _NO_LOGIN else number


def _name_of(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
