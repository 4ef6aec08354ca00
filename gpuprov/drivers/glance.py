"""A look at an engine without its SDK, which takes longer to load than the engine to answer."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_GLANCE_S = 5.0
_MOST_BYTES = 64_000_000


class _Connection(HTTPConnection):
    def __init__(self, place: Path) -> None:
        super().__init__("localhost", timeout=_GLANCE_S)
        self._place = place

    def connect(self) -> None:
        """To the engine's socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_GLANCE_S)
        self.sock.connect(str(self._place))


def read_json(place: Path, path: str) -> Any:  # noqa: ANN401 - JSON
    """What the engine behind a socket answers; whatever goes wrong is raised as it comes."""
    with closing(_Connection(place)) as connection:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read(_MOST_BYTES))
