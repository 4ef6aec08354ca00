"""Commands as main processes of containers: Docker removes these when they end, or they are kept until they go."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.drivers.docker import containers
from gpuprov.drivers.docker.frames import read_frames
from gpuprov.drivers.lost_answers import require_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import Stream
    from gpuprov.drivers.docker.api import DockerApi

_GRACE_S = 10
_LOG_S = 20.0  # for each piece of a log to arrive
_PIECE = 65536
_OUTPUT = {"stream": 1, "stdout": 1, "stderr": 1}


def run_made(
    api: DockerApi, container: str, *, started: Callable[[], object], write: Callable[[Stream, bytes], object]
) -> int:
    """Start a made container, hand on what it writes, and return its exit status once Docker has removed it.

    An exception meanwhile ends and removes it.
    """
    try:
        # Both are asked for before the start, so that nothing of a short job is missed.
        with (
            contextlib.closing(api.open_stream(f"/containers/{container}/wait", condition="removed")) as ended,
            contextlib.closing(api.open_stream(f"/containers/{container}/attach", **_OUTPUT)) as output,
        ):
            api.post(f"/containers/{container}/start")
            started()
            with api.translated("read the output of", container):
                for stream, content in read_frames(output.raw.read):
                    write(stream, content)
                answer = require_document(ended.json(), "StatusCode", engine="docker", request="wait for the job")
    except BaseException:
        end(api, container)
        raise
    if (answer.get("Error") or {}).get("Message"):
        raise EngineError(
            "docker could not wait for the job", evidence=answer["Error"]["Message"], fix="gpuprov list --all"
        )
    return int(answer["StatusCode"])


def begin_made(api: DockerApi, container: str) -> None:
    """Start a made container that goes on by itself; one that does not start is removed."""
    try:
        api.post(f"/containers/{container}/start")
    except BaseException:
        containers.remove(api, container)
        raise


def pass_log(
    api: DockerApi, container: str, *, follow: bool, tail: int | None, write: Callable[[Stream, bytes], object]
) -> None:
    """Hand on what a container has written, and with `follow` what it writes until it ends."""
    asked = {"stdout": 1, "stderr": 1, "follow": int(follow), "tail": "all" if tail is None else tail}
    terminal = api.get(f"/containers/{container}/json")["Config"]["Tty"]
    with api.reading(f"/containers/{container}/logs", timeout_s=None if follow else _LOG_S, **asked) as log:
        if terminal:  # one stream, as it is
            for piece in log.stream(_PIECE):
                write("stdout", piece)
        else:
            for stream, content in read_frames(log.read):
                write(stream, content)


def end(api: DockerApi, container: str) -> None:
    """SIGTERM, a moment, SIGKILL; then it is gone, whether it had started or not.

    An interruption cuts the moment short.
    """
    try:
        with contextlib.suppress(EngineError, TimedOut):  # it may have ended meanwhile
            containers.stop(api, container, timeout_s=_GRACE_S)
    finally:
        containers.remove(api, container)
