"""The engines gpuprov drives, by name; a driver's module and SDK are loaded when it is opened."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
from typing import TYPE_CHECKING, cast

from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver

_OPENERS = {
    "lxd": "gpuprov.drivers.lxd.connect",
    "incus": "gpuprov.drivers.lxd.connect",
    "docker": "gpuprov.drivers.docker.connect",
}

_DAEMONS = {
    "lxd": ("lxd", "/snap/bin/lxd"),
    "incus": ("incusd", "/usr/libexec/incus/incusd", "/opt/incus/bin/incusd"),
    "docker": ("dockerd", "/snap/bin/dockerd"),
}
_ADMIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # Debian's dockerd is there, which is not in every user's PATH
ENGINES = tuple(_OPENERS)


def is_installed(engine: str) -> bool:
    """Whether the engine's daemon is on this machine, running or not."""
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), *_ADMIN))
    return any(shutil.which(program, path=places) for program in _DAEMONS[engine])


def open_driver(engine: str, *, host: str = "") -> Driver:
    """Connect to an engine of this machine; `host` is the name that its nodes carry, the machine's own where empty.

    Raises:
        UsageError: no engine of that name.
        HostNotReady: the engine is not installed, not running, or this user may not use it.
    """
    module = _OPENERS.get(engine)
    if module is None:
        raise UsageError(
            f"unknown engine {engine!r}",
            evidence=f"engines: {', '.join(_OPENERS)}",
            fix="set `engine: lxd` in the spec",
        )
    driver = cast("Driver", importlib.import_module(module).connect(engine))
    driver.host = host or platform.node()
    return driver
