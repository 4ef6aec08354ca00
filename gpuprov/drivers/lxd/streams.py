"""A websocket of LXD's, from which everything is read that arrived, however abruptly LXD closes it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from websockets.sync.client import ClientConnection, unix_connect

if TYPE_CHECKING:
    from pathlib import Path

# LXD does not read where it only writes, so it answers no ping there; and nobody waits for its goodbye.
_OPTIONS: Final[dict[str, Any]] = {"compression": None, "max_size": None, "ping_interval": None, "close_timeout": 0.5}


class _Stream(ClientConnection):
    """A connection that a failed answer does not break.

    LXD may close the socket right behind the last message of a short command. websockets then fails to answer the
    close, and drops the messages that it received in the same piece (`Connection.recv_events`, where it says so). The
    reader learns from the missing end of the stream if anything is missing.
    """

    def send_data(self) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            super().send_data()


def open_stream(socket: Path, address: str) -> ClientConnection:
    """Connect to a stream by LXD's socket.

    Raises:
        OSError: The socket refuses.
        websockets.exceptions.WebSocketException: LXD refuses.
    """
    made: ClientConnection = unix_connect(str(socket), address, create_connection=_Stream, **_OPTIONS)
    return made
