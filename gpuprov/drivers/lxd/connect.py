"""Opening LXD or Incus: find the socket, say why it cannot be used, choose the storage pool."""

from __future__ import annotations

import os
import urllib.parse
from importlib import import_module
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady, NotAllowed
from gpuprov.core.requirements import older
from gpuprov.core.silence_limit import silence_limit_s
from gpuprov.drivers.lxd.family import KIN
from gpuprov.drivers.registry import prepare_command
from gpuprov.drivers.sockets import group_of_socket, socket_places

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.lxd.driver import LxdDriver
    from gpuprov.shapes.choices import Engine


def load() -> None:
    """Load the driver and the SDK."""
    for module in ("pylxd.models", "gpuprov.drivers.lxd.driver"):
        import_module(module)


def connect(engine: Engine) -> LxdDriver:
    """Connect to the engine's socket.

    Raises:
        HostNotReady: there is no socket, this user may not use it, nothing answers, or it is too old.
    """
    socket = get_socket(engine)
    if not os.access(socket, os.R_OK | os.W_OK):
        group = group_of_socket(socket)
        raise NotAllowed(
            f"this user has no access to {engine}",
            evidence=f"{socket} belongs to group {group}; this user is not a member",
            fix=f"sudo usermod -aG {group} $USER, then log in again",
        )
    import pylxd
    from pylxd.exceptions import ClientConnectionFailed, LXDAPIException

    from gpuprov.drivers.lxd.api import LxdApi, words_of
    from gpuprov.drivers.lxd.driver import LxdDriver

    try:
        endpoint = f"http+unix://{urllib.parse.quote(str(socket), safe='')}"
        client = pylxd.Client(endpoint=endpoint, timeout=silence_limit_s())
    except (ClientConnectionFailed, LXDAPIException, OSError) as exc:
        said = words_of(exc.response) if isinstance(exc, LXDAPIException) else str(exc)
        raise HostNotReady(
            f"the {engine} daemon does not respond",
            evidence=f"{socket}: {said or 'connection refused'}",
            fix=f"start it: {prepare_command(engine)}",
        ) from exc
    require_version(engine, str((client.host_info.get("environment") or {}).get("server_version", "")))
    return LxdDriver(LxdApi(client, engine=engine, socket=socket), name=engine)


def require_version(engine: Engine, version: str) -> None:
    """Compare what a daemon says of itself with the oldest version that works; one that says nothing may be newer.

    Raises:
        HostNotReady: It is older.
    """
    kin = KIN[engine]
    if older(version, kin.oldest):
        raise HostNotReady(
            f"{kin.title} {version} is too old",
            evidence=f"the oldest supported version is {kin.oldest}",
            fix=f"upgrade {kin.title}, then: {prepare_command(engine)}",
        )


def get_socket(engine: Engine) -> Path:
    """The engine's socket; its own variable (LXD_DIR, INCUS_DIR) comes first.

    Raises:
        HostNotReady: none of the usual places has one.
    """
    places = socket_places(engine)
    for place in places:
        if place.exists():
            return place
    raise HostNotReady(
        f"{engine} is not running on this machine",
        evidence=f"no socket at {' or '.join(str(place) for place in places)}",
        fix=f"install and start it: {prepare_command(engine)}",
    )
