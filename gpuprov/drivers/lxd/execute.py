"""Commands in a node without websockets: LXD records the output, we read it and remove it.

pylxd's own `execute` opens four websockets a call and its manager thread dies under threads; recording takes half the
time and is thread-safe. It leaves a command nothing to read: feed.py is for those that read.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gpuprov.drivers.base import ExecResult

if TYPE_CHECKING:
    from gpuprov.drivers.base import Call
    from gpuprov.drivers.lxd.api import LxdApi

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LANG": "C.UTF-8",
}
_DAY_S = 86400.0
_GRACE_S = 5.0


def run_recorded(api: LxdApi, name: str, call: Call) -> ExecResult:
    """Run a command that reads nothing, and return its status and output.

    Raises:
        TimedOut: the command ran longer than it may.
    """
    start = time.monotonic()
    body = {**render_exec(call), "record-output": True, "wait-for-websocket": False}
    operation = api.send("post", "instances", name, "exec", body=body, timeout_s=wait_s(call))
    elapsed_s = time.monotonic() - start
    metadata = operation["metadata"]
    stdout, stderr = (_collect(api, name, metadata["output"].get(stream)) for stream in ("1", "2"))
    result = ExecResult(exit_code=metadata["return"], stdout=stdout, stderr=stderr)
    return call.judged(result, node=name, elapsed_s=elapsed_s)


def render_exec(call: Call) -> dict[str, Any]:
    """What LXD is told of a command, however its output comes."""
    return {
        "command": call.limited,
        "environment": {**_ENVIRONMENT, **call.environment},
        "interactive": False,
        "cwd": call.cwd or "/root",
    }


def wait_s(call: Call) -> float:
    """How long to wait for the command to end."""
    return (call.timeout_s or _DAY_S) + _GRACE_S


def _collect(api: LxdApi, name: str, log: str | None) -> str:
    if not log:
        return ""
    path = ("instances", name, "logs", log.rsplit("/", 1)[-1])
    content = api.get_bytes(*path)
    api.delete(*path)
    return content.decode("utf-8", "replace")
