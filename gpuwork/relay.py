"""A connection to a port of this machine, tied to stdin and stdout. Run as `python3 -m gpuwork.relay PORT`."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
from contextlib import suppress
from typing import Final

HERE: Final = "127.0.0.1"
_CONNECT_S: Final = 5
_SILENCE_S: Final = 300
_PIECE: Final = 65536
_NO_ANSWER: Final = 4
_STDIN, _STDOUT = 0, 1


def main(arguments: list[str]) -> int:
    """Run the program on `arguments` (without its name) and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python3 -m gpuwork.relay", description="Tie stdin and stdout to a port of this machine."
    )
    parser.add_argument("port", type=int, metavar="PORT", help=f"of {HERE}")
    port = parser.parse_args(arguments).port
    try:
        with socket.create_connection((HERE, port), _CONNECT_S) as there:
            there.settimeout(_SILENCE_S)
            threading.Thread(target=_send, args=(there,), daemon=True).start()
            _receive(there)
    except OSError as error:
        sys.stderr.write(f"{HERE}:{port}: {error}\n")
        return _NO_ANSWER
    return 0


def _send(there: socket.socket) -> None:
    """What comes on stdin, until it ends."""
    with suppress(OSError):
        while piece := os.read(_STDIN, _PIECE):
            there.sendall(piece)
    with suppress(OSError):
        there.shutdown(socket.SHUT_WR)


def _receive(there: socket.socket) -> None:
    """What comes from there, until that ends, or is silent for too long."""
    with suppress(TimeoutError):
        while piece := there.recv(_PIECE):
            with open(_STDOUT, "wb", closefd=False) as stdout:
                stdout.write(piece)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
