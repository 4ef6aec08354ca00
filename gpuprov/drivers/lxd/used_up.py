"""An instance in which nothing can be started: LXD says no more than that it lost a connection or found no PID."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gpuprov.core.errors import EngineError, GpuprovError
from gpuprov.core.exhaustion import is_used_up, used_up_processes

if TYPE_CHECKING:
    from gpuprov.drivers.lxd.api import LxdApi


def explain_used_up(api: LxdApi, name: str, error: EngineError) -> EngineError:
    """The error of what failed in an instance, or that it has as many processes as it may have."""
    with suppress(GpuprovError, KeyError, ValueError):
        limit = int(api.get("instances", name)["config"]["limits.processes"])
        if is_used_up(api.get("instances", name, "state")["processes"], limit):
            return used_up_processes(name, error.evidence, limit=limit)
    return error
