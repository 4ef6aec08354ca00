"""Opening Docker: where its socket is, why it cannot be used, whether the daemon is new enough."""

from __future__ import annotations

import contextlib
import grp
import os
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.drivers.docker.driver import DockerDriver

OLDEST_API = "1.41"  # Docker 20.10, Debian 12's, with which everything is tested
_SOCKET = "unix:///var/run/docker.sock"


def connect(engine: str) -> DockerDriver:  # noqa: ARG001 - the registry's signature
    """Connect to the daemon that DOCKER_HOST names, else to this machine's.

    Raises:
        HostNotReady: there is no daemon, this user may not use it, or it is too old.
    """
    address = os.environ.get("DOCKER_HOST") or _SOCKET
    require_socket(address)
    import docker
    import requests
    from docker.errors import DockerException
    from docker.utils import kwargs_from_env

    from gpuprov.drivers.docker.api import DockerApi
    from gpuprov.drivers.docker.driver import DockerDriver

    try:
        wanted = kwargs_from_env()
        with contextlib.closing(docker.APIClient(version=OLDEST_API, **wanted)) as asking:
            api = require_api(asking.version(api_version=False))
        client = docker.APIClient(version=api, **wanted)
    except (DockerException, requests.RequestException, OSError) as exc:
        raise HostNotReady(
            "the docker daemon does not respond",
            evidence=f"{address}: {exc}",
            fix="start it: sudo gpuprov host prepare --engine docker",
        ) from exc
    return DockerDriver(DockerApi(client))


def require_socket(address: str) -> None:
    """Raise HostNotReady, with the reason, if the daemon's socket cannot be used; the SDK sees to other addresses."""
    if not address.startswith(("unix://", "http+unix://")):
        return
    socket = Path(address.partition("://")[2])
    if not socket.exists():
        raise HostNotReady(
            "docker is not running on this machine",
            evidence=f"no socket at {socket}",
            fix="install and start it: sudo gpuprov host prepare --engine docker",
        )
    if not os.access(socket, os.R_OK | os.W_OK):
        group = _group_of(socket)
        raise HostNotReady(
            "this user has no access to docker",
            evidence=f"{socket} belongs to group {group}; this user is not a member",
            fix=f"sudo usermod -aG {group} $USER, then log in again",
        )


def require_api(version: Mapping[str, object]) -> str:
    """The API version of a daemon, from its answer to `/version`.

    Raises:
        HostNotReady: it does not know the oldest API that works.
    """
    api = str(version.get("ApiVersion", "0"))
    if tuple(map(int, api.split("."))) < tuple(map(int, OLDEST_API.split("."))):
        raise HostNotReady(
            f"docker {version.get('Version', '?')} is too old",
            evidence=f"it supports API {api}; the oldest supported version is {OLDEST_API} (Docker 20.10)",
            fix="upgrade docker: apt-get install docker.io, or docker-ce from docker.com",
        )
    return api


def _group_of(socket: Path) -> str:
    gid = socket.stat().st_gid
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
