"""Whether another host answers a packet of a given size that must not be split."""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from typing import Final, Literal

from gpuprov.verify.probe import echo

PingAnswer = Literal["answers", "silent", "too large", "not allowed"]

_IP_MTU_DISCOVER, _PMTUDISC_PROBE = 10, 3  # from linux/in.h: never split, and never trust what was learned before
_HEADERS: Final = 28  # IPv4 and ICMP
_REPLY: Final = 0
_TRIES: Final = 3


def ping_whole(address: str, size: int, *, timeout_s: float = 0.7) -> PingAnswer:
    """Send a ping whose IP packet has `size` bytes (one less where that is odd), and wait for the answer; as root.

    A network may lose a packet, which says nothing of its size: another one is sent then, `_TRIES` at most.
    """
    try:
        asking = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    except PermissionError:
        return "not allowed"
    with asking:
        asking.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE)
        token = os.urandom((size - _HEADERS) // 2 * 2)
        for _ in range(_TRIES):
            try:
                asking.sendto(echo(0, token), (address, 0))
            except OSError as error:
                return "too large" if error.errno == errno.EMSGSIZE else "silent"
            if _wait(asking, token, time.monotonic() + timeout_s) == "answers":
                return "answers"
    return "silent"


def _wait(asking: socket.socket, token: bytes, deadline: float) -> PingAnswer:
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([asking], [], [], left)[0]:
            break
        packet = asking.recv(65_535)
        answer = packet[(packet[0] & 15) * 4 :]
        if answer[:1] == bytes([_REPLY]) and answer[8:] == token:
            return "answers"
    return "silent"
