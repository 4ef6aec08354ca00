"""Where gpuprov is on a host that `host add` has brought it to."""

from __future__ import annotations

from typing import Final

PLACE: Final = "/opt/gpuprov"
PROGRAM: Final = f"{PLACE}/current/bin/gpuprov"
