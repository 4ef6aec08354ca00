"""An instance in which nothing can be started: LXD says no more than that it lost a connection or found no PID."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError, GpuprovError
from gpuprov.core.exhaustion import used_up_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.drivers.lxd.api import LxdApi

_NEARLY = 0.95  # of what it may have: processes end and begin all the time


@contextmanager
def told_if_used_up(api: LxdApi, name: str) -> Iterator[None]:
    """Where the block fails and the instance has as many processes as it may have, say so."""
    try:
        yield
    except EngineError as error:
        limit = _find_used_up(api, name)
        if limit is None:
            raise
        raise used_up_processes(name, error.evidence, limit=limit) from error


def _find_used_up(api: LxdApi, name: str) -> int | None:
    """The limit of its processes, where they have reached it."""
    with suppress(GpuprovError, KeyError, ValueError):
        limit = int(api.get("instances", name)["config"]["limits.processes"])
        if api.get("instances", name, "state")["processes"] >= _NEARLY * limit:
            return limit
    return None
