"""Why a port of the host cannot be forwarded, where the engine does not say."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprov.shapes.node import Exposure


def why_unbound(exposure: Exposure) -> str:
    """The kernel's words for a port that cannot be listened on; empty if it can be.

    A busy Incus says no more than that it waited in vain for the process that listens.
    """
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((exposure.listen, exposure.host_port))
        except OSError as error:
            return f"bind {exposure.listen}:{exposure.host_port}: {os.strerror(error.errno or 0).lower()}"
    return ""
