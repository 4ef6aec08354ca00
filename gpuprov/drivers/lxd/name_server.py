"""The name server (dnsmasq) that LXD and Incus run for a network, and lose where they are killed while they start it.

They write its pid down half a second after its start. One without a pid file is never ended by them: it keeps the
address of the network, so that no other can start, and outlives the network.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.drivers.lxd.api import LxdApi

# What the engine says where a lost one still has the address
ADDRESS_TAKEN = "dnsmasq: failed to create listening socket"
_PROCESSES = Path("/proc")


def end_lost(api: LxdApi, name: str) -> None:
    """End every name server of a network for which the engine runs none; no change if there is none.

    Raises:
        EngineError: Only root can end it.
    """
    for pid in _find(f"--conf-file={api.socket.parent}/networks/{name}/dnsmasq.raw".encode()):
        _end(api, name, pid)


def _end(api: LxdApi, name: str, pid: int) -> None:
    try:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    except PermissionError as error:
        raise EngineError(
            f"{api.kin.title} cannot change the network {name}: a name server that it lost has its address",
            evidence=f"process {pid} (dnsmasq) was started by an earlier run of {api.kin.title} for {name}",
            fix=f"sudo kill {pid}; then run the same command again",
        ) from error


def _find(argument: bytes) -> Iterator[int]:
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if argument in (process / "cmdline").read_bytes().split(b"\0"):
                yield int(process.name)
