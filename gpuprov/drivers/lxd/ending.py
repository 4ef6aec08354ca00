"""Instances are stopped and removed whatever they do, and whatever of theirs LXD itself still waits for.

LXD lets a process of its own (`lxd forkfile`) read and write files of an instance, and stops or removes no instance
before that has ended. It never ends where root in the node made it open a FIFO. gpuprov opens none, but others may:
`lxc file pull`, or an earlier gpuprov.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.core.waiting import Wait
from gpuprov.drivers.endings import killed_words
from gpuprov.drivers.lxd.api import NotFound
from gpuprov.drivers.lxd.documents import parse_instance
from gpuprov.drivers.lxd.remnants import remove_links, remove_remnant, remove_unlisted_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.drivers.lxd.api import LxdApi

_MARGIN_S = 5.0  # for LXD, over the time that the node has
_KILL_S = 15.0  # for a kill or a removal while LXD reads files
_SETTLE_S = 10.0  # for a stop to end once the reader has
_LAST_S = 30.0
_PROCESSES = Path("/proc")
_STOPPED = "Stopped"
_BUSY = "busy running a"
_SNAPSHOTS = "has snapshots"


def stop_instance(api: LxdApi, name: str, *, grace_s: float) -> str:
    """Stop a running instance, by force once the time has passed; returns what was forced, if anything was."""
    if grace_s <= 0:
        return _force_stop(api, name)
    with suppress(GpuprovError):
        _change_state(api, name, {"action": "stop", "timeout": int(grace_s)}, timeout_s=grace_s + _MARGIN_S)
        return ""
    forced = _force_stop(api, name)
    return "; ".join(filter(None, (killed_words(grace_s), forced)))


def remove_instance(api: LxdApi, name: str) -> str:
    """Kill and remove an instance; returns what was forced besides, if anything was. No change if it is absent."""
    forced = ""
    with suppress(NotFound):
        document = api.get("instances", name)
        if document["status"] != _STOPPED:
            forced = _force_stop(api, name)
        remove_links(document)

        def attempt(timeout_s: float | None) -> bool:
            try:
                api.delete("instances", name, timeout_s=timeout_s)
            except EngineError as error:
                if _BUSY in error.evidence:  # its stop, which ended a moment ago
                    return False
                unlisted = _SNAPSHOTS in error.evidence and remove_unlisted_snapshots(api, name)
                if not unlisted and not remove_remnant(name, error.evidence):
                    raise
                api.delete("instances", name)
            return True

        def delete(timeout_s: float | None) -> None:
            wait = Wait(what=f"{name} to be removed", timeout_s=_SETTLE_S, fix=f"{api.command} info {name}")
            wait.until(partial(attempt, timeout_s), bool)

        forced = _with_reader_ended(api, name, delete, last_s=None, done=partial(_becomes, api, name, "")) or forced
    return forced


def remove_unfinished(api: LxdApi, name: str) -> None:
    """Remove what a failed request has left; any other instance of that name is not ours to remove."""
    with suppress(NotFound):
        left = parse_instance(api.get("instances", name))
        if left.ours and not left.complete:
            remove_instance(api, name)


def _force_stop(api: LxdApi, name: str) -> str:
    """Kill an instance's processes; returns what that took besides."""

    def kill(timeout_s: float | None) -> None:
        limit_s = timeout_s or _LAST_S
        _change_state(api, name, {"action": "stop", "force": True, "timeout": int(limit_s)}, timeout_s=limit_s)

    return _with_reader_ended(api, name, kill, last_s=_LAST_S, done=partial(_becomes, api, name, _STOPPED))


def _becomes(api: LxdApi, name: str, wanted: str) -> bool:
    """Whether an instance gets this status within a moment; an empty one says that it is gone."""

    def status() -> str:
        try:
            return str(api.get("instances", name)["status"])
        except NotFound:
            return ""

    wait = Wait(what=f"{name} to change", timeout_s=_SETTLE_S, fix=f"{api.command} info {name}")
    with suppress(TimedOut):
        return wait.until(status, lambda seen: seen == wanted) == wanted
    return False


def _with_reader_ended(
    api: LxdApi, name: str, act: Callable[[float | None], None], *, last_s: float | None, done: Callable[[], bool]
) -> str:
    """Do it; where it fails and LXD still reads a file of the instance, end that and do it again.

    Args:
        name: The instance.
        act: What to do, within so many seconds.
        last_s: For the last attempt; None for as long as LXD reports progress.
        done: Whether the first attempt comes to its end, once nothing holds it up.
    """
    reader = _find_reader(api, name)
    if reader is None:
        try:
            act(last_s)
        except TimedOut as error:
            if os.geteuid() == 0:
                raise
            held = f"{api.kin.title} may still be reading a file in {name}, which only root can see and end"
            evidence = f"{error.evidence}; {held}"
            raise TimedOut(error.what, evidence=evidence, fix="run the same command with sudo") from error
        return ""
    try:
        act(_KILL_S)
    except NotFound:
        raise
    except GpuprovError:
        with suppress(ProcessLookupError):
            _kill(api, reader, name)
        if not done():
            act(last_s)
        return f"ended a process of {api.kin.title} that was reading a file in it"
    return ""


def _change_state(api: LxdApi, name: str, change: Mapping[str, Any], *, timeout_s: float) -> None:
    api.send("put", "instances", name, "state", body=change, timeout_s=timeout_s)


def _find_reader(api: LxdApi, name: str) -> int | None:
    """The process of LXD that has files of this instance open, as far as this user can see it."""
    own, usual = api.socket.parent, Path("/run") / api.engine
    for folder in (own / "logs" / name, own / "run" / name, usual / name):
        with suppress(OSError, ValueError):
            pid = int((folder / "forkfile.pid").read_text())
            if pid > 1 and b"\0forkfile\0" in (_PROCESSES / str(pid) / "cmdline").read_bytes():
                return pid
    return None


def _kill(api: LxdApi, reader: int, name: str) -> None:
    try:
        os.kill(reader, signal.SIGKILL)
    except PermissionError as error:
        raise EngineError(
            f"{api.kin.title} cannot stop {name}: a file in it is still being read",
            evidence=f"its process {reader} is reading a file in {name}, and only root can end it",
            fix=f"sudo kill -9 {reader}; then run the same command again",
        ) from error
