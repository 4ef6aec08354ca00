"""How many processes a node has, as its control group counts them: files, for engines take long to tell."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.drivers.base import NodeState

_GROUPS = Path("/sys/fs/cgroup")
_CONTROLLERS = ("pids", "")  # with cgroup v1, and v2


def read_processes(node: NodeState, places: Iterable[str], *, groups: Path = _GROUPS) -> int | None:
    """Of a running node with a limit of processes; None where none of the groups has that limit, so is not its own.

    Args:
        node: As its engine lists it.
        places: Where its engine may have put it, as `Driver.process_groups` says.
        groups: The root of all groups.
    """
    if node.status != "running" or not node.limits.processes:
        return None
    named = [place.format(name=node.name, id=node.id) for place in places]
    for folder in (groups / controller / place for place in named for controller in _CONTROLLERS):
        with suppress(OSError, ValueError):
            if int((folder / "pids.max").read_text()) == node.limits.processes:
                return int((folder / "pids.current").read_text())
    return None
