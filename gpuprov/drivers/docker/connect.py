"""Opening Docker: where its socket is, why it cannot be used, whether the daemon is on this machine and new enough."""

from __future__ import annotations

import contextlib
import os
import platform
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady, NotAllowed
from gpuprov.core.requirements import older
from gpuprov.drivers.registry import prepare_command
from gpuprov.drivers.sockets import group_of_socket, socket_places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.drivers.docker.driver import DockerDriver

OLDEST_API = "1.41"  # Docker 20.10, Debian 12's, with which everything is tested


def load() -> None:
    """Load the driver and the SDK."""
    for module in ("docker", "gpuprov.drivers.docker.driver"):
        import_module(module)


def connect(engine: str) -> DockerDriver:  # noqa: ARG001 - the registry's signature
    """Connect to the daemon whose socket DOCKER_HOST names, else to the usual one.

    Contexts of Docker's own client (DOCKER_CONTEXT) and TLS are for daemons elsewhere, and are not looked at.

    Raises:
        HostNotReady: there is no daemon, it runs on another machine, this user may not use it, or it is too old.
    """
    named, socket = os.environ.get("DOCKER_HOST", ""), find_socket()
    address = f"unix://{socket}"
    require_socket(socket)
    import docker
    import requests
    from docker.errors import DockerException

    from gpuprov.drivers.docker.api import DockerApi
    from gpuprov.drivers.docker.driver import DockerDriver

    try:
        with contextlib.closing(docker.APIClient(address, version=OLDEST_API)) as asking:
            version = asking.version(api_version=False)
            api = require_api(version)
        with contextlib.closing(docker.APIClient(address, version=api)) as asking:  # the oldest may be too old for it
            require_this_machine(address, {**version, **(asking.info() if named else {})})
        client = docker.APIClient(address, version=api)
    except (DockerException, requests.RequestException, OSError) as exc:
        raise HostNotReady(
            "the docker daemon does not respond",
            evidence=f"{address}: {exc}",
            fix=f"start it: {prepare_command('docker')}",
        ) from exc
    return DockerDriver(DockerApi(client, address=address))


def find_socket() -> Path:
    """The socket that DOCKER_HOST names, else the usual one; HostNotReady where it names none."""
    named = os.environ.get("DOCKER_HOST", "")
    return read_address(named) if named else socket_places("docker")[0]


def read_address(address: str) -> Path:
    """The socket that DOCKER_HOST names.

    Raises:
        HostNotReady: It names none: behind tcp:// and ssh:// is another machine, or nobody knows which.
    """
    scheme, _, path = address.partition("://")
    if scheme not in ("unix", "http+unix") or not path:
        raise HostNotReady(
            "gpuprov does not support a remote Docker daemon",
            evidence=f"DOCKER_HOST={address} is not a unix socket; nodes get devices and folders of this machine",
            fix="unset DOCKER_HOST; to use that machine's docker, run gpuprov there",
        )
    return Path(path)


def require_this_machine(address: str, said: Mapping[str, object]) -> None:
    """Compare what the daemon says of its machine with this one: a socket may be forwarded, as by `ssh -L`.

    Args:
        address: The daemon's.
        said: Its answers to `/version`, and to `/info` where they are known.

    Raises:
        HostNotReady: It runs on another machine.
    """
    here = {"Name": platform.node(), "KernelVersion": platform.release()}
    there = {key: str(said.get(key) or value) for key, value in here.items()}
    if there != here:
        theirs, ours = (" with Linux ".join(machine.values()) for machine in (there, here))
        raise HostNotReady(
            "docker runs on another machine",
            evidence=f"{address} is {theirs}; this is {ours}",
            fix="unset DOCKER_HOST; to use that machine's docker, run gpuprov there",
        )


def require_socket(socket: Path) -> None:
    """Raise HostNotReady, with the reason, if the daemon's socket cannot be used."""
    if not socket.exists():
        raise HostNotReady(
            "docker is not running on this machine",
            evidence=f"no socket at {socket}",
            fix=f"install and start it: {prepare_command('docker')}",
        )
    if not os.access(socket, os.R_OK | os.W_OK):
        group = group_of_socket(socket)
        raise NotAllowed(
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
    if older(api, OLDEST_API):
        raise HostNotReady(
            f"docker {version.get('Version', '?')} is too old",
            evidence=f"it supports API {api}; the oldest supported version is {OLDEST_API} (Docker 20.10)",
            fix="upgrade docker: apt-get install docker.io, or docker-ce from docker.com",
        )
    return api
