"""What a container wrote, and how it ended: why a node that was started does not run."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from gpuprov.core.errors import GpuprovError
from gpuprov.core.excerpt import excerpt, last_words
from gpuprov.drivers.base import MOST_FILE_BYTES
from gpuprov.drivers.calls import Tail
from gpuprov.drivers.docker.api import Conflict
from gpuprov.drivers.docker.frames import read_frames

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpuprov.drivers.docker.api import DockerApi

_LOG_S = 20.0  # for each piece of a log to arrive
_LOG_LINES = 10_000
_NOT_RUNNING = ("is not running", "is restarting")  # Docker starts a dead node again, and again


def read_container_log(api: DockerApi, identity: str) -> str:
    """The end of what a container's main process wrote."""
    tail = Tail(MOST_FILE_BYTES)
    streams = {"stdout": 1, "stderr": 1, "tail": _LOG_LINES}
    with api.reading(f"/containers/{identity}/logs", timeout_s=_LOG_S, **streams) as stream:
        for _, piece in read_frames(stream.read):
            tail.take(piece)
    return tail.text()


@contextmanager
def last_words_of(api: DockerApi, identity: str, name: str) -> Iterator[None]:
    """Where the block fails because the container does not run, show its last words: it may have died just now."""
    try:
        yield
    except Conflict as error:
        if not any(words in error.evidence for words in _NOT_RUNNING):
            raise
        said = []
        with suppress(GpuprovError):
            said = [describe_end(api.get(f"/containers/{identity}/json")["State"])]
            said += [f"docker logs: {line}" for line in last_words(read_container_log(api, identity)).splitlines()]
        evidence = "\n".join([error.evidence, *filter(None, said)])
        fix = f"gpuprov logs {name}; gpuprov start {name}"
        raise Conflict(f"{name} is not running", evidence=evidence, fix=fix) from error


def describe_end(state: Mapping[str, Any]) -> str:
    """How a container ended, from its state; empty for one that was never started."""
    if not str(state.get("StartedAt") or "0001").startswith("0001"):
        killed = ", killed as it ran out of memory" if state.get("OOMKilled") else ""
        why = f": {excerpt(str(state['Error']))}" if state.get("Error") else ""
        return f"its main process ended with status {state.get('ExitCode')}{killed}{why}"
    return ""
