"""Commands in a node without websockets: LXD records the output, we read it and remove it.

pylxd's own `execute` opens four websockets a call and its manager thread dies under threads; recording takes half the
time and is thread-safe.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpuprov.core.errors import TimedOut
from gpuprov.drivers.base import ExecResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.drivers.lxd.api import LxdApi

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LANG": "C.UTF-8",
}
_DAY_S = 86400.0
_GRACE_S = 5.0
_KILLED = 137


def run_recorded(
    api: LxdApi,
    name: str,
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str | None,
    timeout_s: float | None,
) -> ExecResult:
    """Run a command in a node and return its status and output.

    A command with a time limit runs under coreutils' `timeout`, so that it is killed in the node and not only
    forgotten here.

    Raises:
        TimedOut: the command ran longer than `timeout_s`.
    """
    command = list(argv)
    if timeout_s is not None:
        command = ["timeout", "--signal=KILL", f"{timeout_s:.3f}", *command]
    body: dict[str, object] = {
        "command": command,
        "environment": {**_ENVIRONMENT, **environment},
        "record-output": True,
        "wait-for-websocket": False,
        "interactive": False,
        "cwd": cwd or "/root",
    }
    start = time.monotonic()
    operation = api.send("post", "instances", name, "exec", body=body, timeout_s=(timeout_s or _DAY_S) + _GRACE_S)
    elapsed_s = time.monotonic() - start
    metadata = operation["metadata"]
    stdout, stderr = (_collect(api, name, metadata["output"].get(stream)) for stream in ("1", "2"))
    if timeout_s is not None and metadata["return"] == _KILLED and elapsed_s >= timeout_s:
        raise TimedOut(
            f"`{' '.join(argv)}` in {name} did not end in {timeout_s:.0f} s",
            evidence=(stderr or stdout)[-2000:].strip() or "no output",
            fix=f"look inside with: gpuprov shell {name}",
        )
    return ExecResult(exit_code=metadata["return"], stdout=stdout, stderr=stderr)


def _collect(api: LxdApi, name: str, log: str | None) -> str:
    if not log:
        return ""
    path = ("instances", name, "logs", log.rsplit("/", 1)[-1])
    content = api.get_bytes(*path)
    api.delete(*path)
    return content.decode("utf-8", "replace")
