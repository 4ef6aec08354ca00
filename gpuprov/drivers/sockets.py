"""Where the engines' sockets are, and which groups may use them: their members are who may change this host."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKETS: Final[Mapping[str, tuple[str, ...]]] = {
    "lxd": ("/var/lib/lxd/unix.socket", "/var/snap/lxd/common/lxd/unix.socket"),
    "incus": ("/var/lib/incus/unix.socket", "/run/incus/unix.socket"),
    "docker": ("/var/run/docker.sock",),
}
DIR_VARIABLES: Final = {"lxd": "LXD_DIR", "incus": "INCUS_DIR"}


def socket_places(engine: str, environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Where the socket of an engine may be; the engine's own variable (LXD_DIR, INCUS_DIR) comes first."""
    own = environment.get(DIR_VARIABLES[engine]) if engine in DIR_VARIABLES else None
    return (Path(own) / "unix.socket",) if own else tuple(map(Path, SOCKETS[engine]))


def group_of_socket(socket: Path) -> str:
    """The group whose members may use a socket."""
    gid = socket.stat().st_gid
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def engine_groups() -> frozenset[int]:
    """Ids of the groups whose members may use an engine of this machine."""
    return frozenset(
        gid for engine in SOCKETS for place in socket_places(engine) if (gid := _group_of(place)) is not None
    )


def engine_group(engine: str) -> int | None:
    """Id of the group whose members may use an engine of this machine; None where only root may, or it is absent."""
    return next((gid for place in socket_places(engine) if (gid := _group_of(place)) is not None), None)


def _group_of(socket: Path) -> int | None:
    """None where there is no socket, or root alone may use it."""
    try:
        seen = socket.stat()
    except OSError:
        return None
    members_may = stat.S_ISSOCK(seen.st_mode) and seen.st_mode & stat.S_IWGRP
    return seen.st_gid if members_may and seen.st_gid != 0 else None
