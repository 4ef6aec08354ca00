"""Commands in a running container."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpuprov.core.errors import TimedOut
from gpuprov.drivers.base import ExecResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.drivers.docker.api import DockerApi

_KILLED = 137
_NOT_FOUND = 127
_REFUSED = (126, 127)


def execute(
    api: DockerApi,
    container: str,
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str | None,
    timeout_s: float | None,
) -> ExecResult:
    """Run a command in a container and return its status and output.

    A command with a time limit runs under coreutils' `timeout`, so that it is killed in the node, with its children,
    and not only forgotten here.

    Raises:
        TimedOut: the command ran longer than `timeout_s`.
    """
    command = list(argv)
    if timeout_s is not None:
        command = ["timeout", "--signal=KILL", f"{timeout_s:.3f}", *command]
    body = {
        "AttachStdout": True,
        "AttachStderr": True,
        "Cmd": command,
        "Env": [f"{key}={value}" for key, value in environment.items()],
        "WorkingDir": cwd or "/root",
    }
    started = time.monotonic()
    identity = api.post(f"/containers/{container}/exec", body)["Id"]
    with api.translated("run a command in", container):
        streams = api.client.exec_start(identity, demux=True)
    elapsed_s = time.monotonic() - started
    exit_code = int(api.get(f"/exec/{identity}/json")["ExitCode"])
    stdout, stderr = ((stream or b"").decode("utf-8", "replace") for stream in streams)
    if exit_code in _REFUSED and stdout.startswith("OCI runtime exec failed") and not stderr:
        missing = "no such file" in stdout or "not found" in stdout
        return ExecResult(exit_code=_NOT_FOUND if missing else exit_code, stdout="", stderr=stdout)
    if timeout_s is not None and exit_code == _KILLED and elapsed_s >= timeout_s:
        raise TimedOut(
            f"`{' '.join(argv)}` in {container} did not end in {timeout_s:.0f} s",
            evidence=(stderr or stdout)[-2000:].strip() or "no output",
            fix=f"look inside with: gpuprov shell {container}",
        )
    return ExecResult(exit_code=exit_code, stdout=stdout, stderr=stderr)
