"""A container that has ended is removed from Docker, where the policy that judged its start says so.

The start leaves a note in /run; who deletes the container takes the note and starts remove.py, which asks Docker later.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.whole_file import replace_file
from gpuprov.runtime.engines import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER: Final = Path("run/gpuprov/removals")  # below the root of the machine
AFTER_S: Final = 10  # after the end: who restarts it has started it by then, and who follows its logs has them
_TIME: Final = "%Y-%m-%dT%H:%M:%S"  # as Docker's times begin, which are UTC too
_SECOND: Final = len("2026-01-01T00:00:00")
_PATIENCE_S: Final = 60.0  # with a dockerd that does not answer
_PAUSE_S: Final = 1.0
_MOST_BYTES: Final = 8_000_000


def note_removal(container: str, *, state: str, root: Path = Path("/")) -> None:
    """Have the container removed once it has ended.

    Args:
        container: Its id.
        state: The folder in which its OCI runtime keeps its state.
        root: Of the machine.
    """
    folder = root / FOLDER
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    replace_file(folder / container, f"{time.strftime(_TIME, time.gmtime())} {state}\n", mode=0o644)


def may_remove(said: Mapping[str, Any], *, judged: str, ended: str) -> bool:
    """Whether Docker's container has ended in the run that was judged, and neither Docker nor anybody else sees to it.

    Args:
        said: What Docker tells of it.
        judged: When its start was judged, in UTC, as text to the second.
        ended: When what had run was deleted.
    """
    state, host = said["State"], said["HostConfig"]
    restarts = str((host.get("RestartPolicy") or {}).get("Name") or "no")
    in_this_run = judged <= str(state["StartedAt"])[:_SECOND] and str(state["FinishedAt"])[:_SECOND] <= ended
    is_node = bool((said["Config"].get("Labels") or {}).get(CLUSTER))
    is_build_s = (host.get("LogConfig") or {}).get("Type") == "none"  # a step of Docker's own builder, which commits it
    is_others = host["AutoRemove"] or is_node or is_build_s
    return state["Status"] == "exited" and in_this_run and restarts == "no" and not is_others


def remove_ended(
    container: str, sockets: Sequence[str], *, judged: str, ended: str, patience_s: float = _PATIENCE_S
) -> None:
    """Ask Docker to remove it, without force; named volumes stay, as with `docker run --rm`.

    Nothing if it may not be removed, or if Docker does not answer in that time.
    """
    late_s = time.monotonic() + patience_s
    while True:
        for place in sockets:
            try:
                said = _ask(place, "GET", f"/containers/{container}/json", late_s)
                if said is not None and may_remove(said, judged=judged, ended=ended):
                    _ask(place, "DELETE", f"/containers/{container}?v=1", late_s)
            except (OSError, http.client.HTTPException):
                continue  # it starts again, maybe
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                return
            return
        if time.monotonic() + _PAUSE_S > late_s:
            return
        time.sleep(_PAUSE_S)


class _Line(http.client.HTTPConnection):
    def __init__(self, place: str, limit_s: float) -> None:
        super().__init__("localhost", timeout=limit_s)
        self._place = place

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._place)


def _ask(place: str, method: str, path: str, late_s: float) -> Any:  # noqa: ANN401 - JSON
    """The document; None where there is none, as when the container is gone."""
    with closing(_Line(place, max(_PAUSE_S, late_s - time.monotonic()))) as line:
        line.request(method, path)
        answer = line.getresponse()
        content = answer.read(_MOST_BYTES)
    return json.loads(content) if answer.status == http.client.OK else None
