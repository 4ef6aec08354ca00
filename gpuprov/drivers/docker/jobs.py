"""Commands as main processes of containers that Docker removes when they end."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError
from gpuprov.drivers.docker import containers

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import Stream
    from gpuprov.drivers.docker.api import DockerApi

_GRACE_S = 10


def run_made(
    api: DockerApi, container: str, *, started: Callable[[], object], write: Callable[[Stream, bytes], object]
) -> int:
    """Start a made container, hand on what it writes, and return its exit status once Docker has removed it.

    An exception meanwhile ends and removes it.
    """
    try:
        # Both are asked for before the start, so that nothing of a short job is missed.
        ended = api.open_stream(f"/containers/{container}/wait", condition="removed")
        with api.translated("attach to", container):
            output = api.client.attach(container, stream=True, demux=True)
        api.post(f"/containers/{container}/start")
        started()
        with api.translated("read the output of", container):
            for stdout, stderr in output:
                if stdout:
                    write("stdout", stdout)
                if stderr:
                    write("stderr", stderr)
            answer = json.loads(ended.content)
    except BaseException:
        end(api, container)
        raise
    if (answer.get("Error") or {}).get("Message"):
        raise EngineError(
            "docker could not wait for the job", evidence=answer["Error"]["Message"], fix="gpuprov list --all"
        )
    return int(answer["StatusCode"])


def end(api: DockerApi, container: str) -> None:
    """SIGTERM, a moment, SIGKILL; then it is gone, whether it had started or not."""
    with contextlib.suppress(EngineError):  # it may have ended meanwhile
        containers.stop(api, container, timeout_s=_GRACE_S)
    containers.remove(api, container)
