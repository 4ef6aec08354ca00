"""The one table of the engines that gpuprov drives; a driver's module and SDK are loaded when it is opened."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from gpuprov.core.errors import UsageError
from gpuprov.shapes.choices import DEFAULT_ENGINE

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from gpuprov.drivers.base import Driver
    from gpuprov.shapes.choices import Engine


@dataclass(frozen=True, kw_only=True)
class EngineEntry:
    """What differs from engine to engine before it is opened.

    Attributes:
        module: Has the function `connect`, which opens it.
        glance: A module with the function `list_names`, which needs no SDK.
        daemons: Names or paths of its daemon.
        packages: What `host prepare` may install for it; some of them only on one release.
        units: Of systemd, whose journal tells what it does.
        logs: Its log files, below the root of the machine.
        systemd: Whether its nodes can run systemd.
    """

    module: str
    glance: str
    daemons: tuple[str, ...]
    packages: tuple[str, ...]
    units: tuple[str, ...]
    logs: tuple[str, ...]
    systemd: bool = True


REGISTRY: Final[Mapping[Engine, EngineEntry]] = {
    "lxd": EngineEntry(
        module="gpuprov.drivers.lxd.connect",
        glance="gpuprov.drivers.lxd.names",
        daemons=("lxd", "/snap/bin/lxd"),
        packages=("lxd", "lxd-client", "mmdebstrap", "btrfs-progs"),
        units=("lxd", "snap.lxd.daemon"),
        logs=("var/log/lxd/lxd.log", "var/snap/lxd/common/lxd/logs/lxd.log"),
    ),
    "incus": EngineEntry(
        module="gpuprov.drivers.lxd.connect",
        glance="gpuprov.drivers.lxd.names",
        daemons=("incusd", "/usr/libexec/incus/incusd", "/opt/incus/bin/incusd"),
        packages=("incus-base", "incus-client", "mmdebstrap", "btrfs-progs"),
        units=("incus",),
        logs=("var/log/incus/incus.log", "var/log/incus/incusd.log"),
    ),
    "docker": EngineEntry(
        module="gpuprov.drivers.docker.connect",
        glance="gpuprov.drivers.docker.names",
        daemons=("dockerd", "/snap/bin/dockerd"),
        packages=("docker.io", "docker-cli", "mmdebstrap"),
        units=("docker", "containerd"),
        logs=("var/log/docker.log",),
        systemd=False,
    ),
}
_FOR_NEW: Final[tuple[Engine, ...]] = (DEFAULT_ENGINE, "incus")
_ADMIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # Debian's dockerd is there, which is not in every user's PATH


def is_installed(engine: Engine) -> bool:
    """Whether the engine's daemon is on this machine, running or not."""
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), *_ADMIN))
    found = (shutil.which(program, path=places) for program in REGISTRY[engine].daemons)
    return any(program and not _is_script(program) for program in found)


def _is_script(program: str) -> bool:
    """Ubuntu has scripts of LXD's names that would install it."""
    try:
        with Path(program).open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def prepare_command(engine: str) -> str:
    """What to type where an engine is not installed, does not run or lacks something that nodes need."""
    return f"sudo gpuprov host prepare --engine {engine}"


def choose_engine(installed: Container[str]) -> Engine:
    """The engine for what is new: LXD, or Incus on a machine that has Incus and no LXD."""
    return next((engine for engine in _FOR_NEW if engine in installed), DEFAULT_ENGINE)


def load_driver(engine: Engine) -> None:
    """Load what `open_driver` needs."""
    importlib.import_module(REGISTRY[engine].module).load()


def glance_at_nodes(engine: Engine) -> list[str]:
    """Names of the engine's nodes, sooner than a driver could be loaded; whatever goes wrong is raised as it comes."""
    return cast("list[str]", importlib.import_module(REGISTRY[engine].glance).list_names(engine))


def open_driver(engine: str, *, host: str = "") -> Driver:
    """Connect to an engine of this machine; `host` is the name that its nodes carry, the machine's own where empty.

    Raises:
        UsageError: no engine of that name.
        HostNotReady: the engine is not installed, not running, or this user may not use it.
    """
    entry = REGISTRY.get(cast("Engine", engine))
    if entry is None:
        raise UsageError(
            f"unknown engine {engine!r}",
            evidence=f"engines: {', '.join(REGISTRY)}",
            fix=f"set `engine: {DEFAULT_ENGINE}` in the spec",
        )
    driver = cast("Driver", importlib.import_module(entry.module).connect(engine))
    driver.host = host or platform.node()
    return driver
