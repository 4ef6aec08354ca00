"""Messages between a process and the one that runs a program's code: a JSON object, then pieces of bytes."""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.base import parse_json
from gpuprov.shapes.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_BYTES: Final = 2**31
_MOST_HEAD: Final = 16 * MIB
_SIZES: Final = struct.Struct("<II")
_SIZE: Final = struct.Struct("<Q")

Message = tuple[dict[str, Any], list[bytearray]]


def send(handle: int, head: dict[str, Any], pieces: Sequence[bytes | bytearray | memoryview] = ()) -> None:
    """Write a message.

    Raises:
        OSError: Nobody reads it.
    """
    said = json.dumps(head, ensure_ascii=False).encode(errors="replace")  # half a character is none
    _write(handle, _SIZES.pack(len(said), len(pieces)) + said)
    for piece in pieces:
        _write(handle, _SIZE.pack(len(piece)))
        _write(handle, piece)


def receive(handle: int, *, ready: Callable[[int], object] = bool) -> Message | None:
    """Read a message; None where the other end is closed.

    Args:
        handle: To read from.
        ready: Waits until there is something to read from the handle, or raises.

    Raises:
        ValueError: It is none.
    """
    start = _read(handle, _SIZES.size, ready)
    if start is None:
        return None
    length, count = _SIZES.unpack(start)
    if length > _MOST_HEAD or count > 1000:  # noqa: PLR2004
        raise ValueError(f"a message of {length} bytes and {count} pieces")
    head = parse_json(bytes(_whole(handle, length, ready)))
    if not isinstance(head, dict):
        raise ValueError("a message that is not an object")  # noqa: TRY004  (it is about what was read)
    pieces = []
    for _ in range(count):
        (size,) = _SIZE.unpack(_whole(handle, _SIZE.size, ready))
        if size > MOST_BYTES:
            raise ValueError(f"a piece of {size} bytes")
        pieces.append(_whole(handle, size, ready))
    return head, pieces


def _write(handle: int, content: bytes | bytearray | memoryview) -> None:
    left = memoryview(content).cast("B")
    while left:
        left = left[os.write(handle, left) :]


def _whole(handle: int, size: int, ready: Callable[[int], object]) -> bytearray:
    content = _read(handle, size, ready)
    if content is None and size:
        raise ValueError("a message that ends early")
    return content or bytearray()


def _read(handle: int, size: int, ready: Callable[[int], object]) -> bytearray | None:
    content = bytearray(size)
    left = memoryview(content)
    while left:
        ready(handle)
        count = os.readv(handle, [left])
        if not count:
            if len(left) == size:
                return None
            raise ValueError("a message that ends early")
        left = left[count:]
    return content
