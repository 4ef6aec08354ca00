"""The process behind Docker's socket: how it was started, where its settings are, and what it says of itself."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from gpuprov.core.errors import HostNotReady
from gpuprov.core.process import begun_s
from gpuprov.core.waiting import Wait
from gpuprov.drivers.glance import read_json
from gpuprov.machine.daemon_json import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_CREDENTIALS: Final = struct.Struct("3i")
_USUAL_CONFIG: Final = "/etc/docker/daemon.json"
_USUAL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_RELOAD_S: Final = 10.0
_OWN_FLAGS: Final = ("--add-runtime", "--default-runtime")


@dataclass(frozen=True, kw_only=True)
class DockerDaemon:
    """A dockerd of this machine.

    Attributes:
        arguments: It was started with.
        path: Its folders of programs.
        begun_s: When it began, in seconds since 1970.
        unit: That of systemd which runs it; empty if none does.
    """

    socket: Path
    pid: int
    arguments: tuple[str, ...]
    path: str
    begun_s: float
    unit: str = ""

    @property
    def config(self) -> Path:
        """Its daemon.json, which need not be there."""
        return Path(_value_of("--config-file", self.arguments) or _USUAL_CONFIG)

    @property
    def flags(self) -> tuple[str, ...]:
        """Those that say what daemon.json is to say: dockerd does not start with both."""
        return tuple(flag for flag in _OWN_FLAGS if _value_of(flag, self.arguments) is not None)

    def find_program(self, name: str) -> Path | None:
        """Where it finds a program."""
        found = shutil.which(name, path=self.path)
        return Path(found).absolute() if found else None

    def info(self) -> Mapping[str, Any]:
        """What it says of itself."""
        return cast("Mapping[str, Any]", self._ask("/info"))

    def containers(self) -> list[Mapping[str, Any]]:
        """All of its containers, as `docker inspect` shows them; one that goes meanwhile is left out."""
        found: list[Mapping[str, Any]] = []
        for one in cast("list[Mapping[str, Any]]", self._ask("/containers/json?all=1")):
            try:
                document = self._ask(f"/containers/{one['Id']}/json")
            except HostNotReady:  # its start waits for GPUs, and Docker tells nothing else of it until that is over
                starts = {"Runtime": RUNTIME}
                document = {"Name": one["Names"][0], "HostConfig": starts, "State": {"Status": one["State"]}}
            if isinstance(document, dict) and "HostConfig" in document:
                found.append(document)
        return found

    def reload(self, *, until: Callable[[Mapping[str, Any]], bool]) -> None:
        """Have it read daemon.json again; containers go on.

        Raises:
            TimedOut: It did not take it over.
        """
        os.kill(self.pid, signal.SIGHUP)
        wait = Wait(
            what="dockerd to read its daemon.json again",
            timeout_s=_RELOAD_S,
            fix=f"journalctl -u docker -n 20; dockerd says there what it does not like in {self.config}",
            interval_s=0.1,
        )
        wait.until(lambda: {key: self.info().get(key) for key in ("Runtimes", "DefaultRuntime")}, until)

    def _ask(self, path: str) -> object:
        return ask_daemon(self.socket, path)


def ask_daemon(place: Path, path: str) -> object:
    """What the daemon behind a socket answers, such as to `/info`.

    Raises:
        HostNotReady: It does not respond.
    """
    try:
        return cast("object", read_json(place, path))
    except (OSError, ValueError, HTTPException) as error:
        raise HostNotReady(
            "the docker daemon does not respond",
            evidence=f"{place}: {error}",
            fix="gpuprov doctor --engine docker",
        ) from error


def find_daemon(place: Path, *, proc: Path = Path("/proc")) -> DockerDaemon:
    """The dockerd behind a socket.

    Raises:
        HostNotReady: Nobody knows which process it is.
    """
    for pid in (_peer(place), *_all_daemons(proc)):
        with suppress(OSError):
            if (proc / str(pid) / "comm").read_text().strip() == "dockerd":
                arguments = _words(proc / str(pid) / "cmdline")
                variables = _variables(proc / str(pid) / "environ")
                return DockerDaemon(
                    socket=place,
                    pid=pid,
                    arguments=tuple(arguments[1:]),
                    path=variables.get("PATH", _USUAL_PATH),
                    begun_s=begun_s(pid, proc=proc),
                    unit=unit_of((proc / str(pid) / "cgroup").read_text()),
                )
    raise HostNotReady(
        "the docker daemon's process cannot be found",
        evidence=f"nothing named dockerd is behind {place}",
        fix="ps -C dockerd; systemctl status docker",
    )


def unit_of(groups: str) -> str:
    """The service of systemd in which a process is, by its /proc/PID/cgroup; empty where there is none.

    A user's own systemd has services too: below `user.slice`, and not meant.
    """
    names = [path.rpartition("/")[2] for path in groups.splitlines() if "/system.slice/" in path]
    return next((name for name in names if name.endswith(".service")), "")


def _peer(place: Path) -> int:
    """Who listens, as the kernel knows it: with a socket of systemd's, that is systemd."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(place))
        pid, _, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(pid)


def _all_daemons(proc: Path) -> list[int]:
    """Every dockerd of root's that is not in a container, if there is only one."""
    found = []
    for entry in proc.iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and (entry / "comm").read_text().strip() == "dockerd":
                of_root = entry.stat().st_uid == proc.stat().st_uid
                if of_root and _space(entry) == _space(proc / "self"):
                    found.append(int(entry.name))
    return found if len(found) == 1 else []


def _space(entry: Path) -> str:
    """The namespace of its processes."""
    with suppress(FileNotFoundError):
        return str((entry / "ns/pid").readlink())
    return ""


def _variables(path: Path) -> dict[str, str]:
    """None for who may not read them: only root may."""
    with suppress(PermissionError):
        return dict(line.split("=", 1) for line in _words(path) if "=" in line)
    return {}


def _words(path: Path) -> list[str]:
    return path.read_bytes().decode(errors="replace").rstrip("\0").split("\0")


def _value_of(flag: str, arguments: tuple[str, ...]) -> str | None:
    for number, word in enumerate(arguments):
        if word == flag:
            return arguments[number + 1] if number + 1 < len(arguments) else ""
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return None
