"""A lock for one change of one thing: held while the engine makes it, so nobody is told for whom they wait."""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

from gpuprov.core.group_files import CHANGES_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.core.group_files import Gates

_LOCK = struct.Struct("hhqqi")  # the kernel's `struct flock`
_PLACE_BYTES = 7  # of a thing's own byte in the file, which stays empty


@contextmanager
def change_lock(gates: Gates, thing: str) -> Iterator[None]:
    """Hold the lock of a thing for the block; two of one process exclude each other, so it is not taken twice.

    Raises:
        HostNotReady: This user may not hold it.
    """
    place = int.from_bytes(sha256(thing.encode()).digest()[:_PLACE_BYTES], "big")
    held = gates.open(CHANGES_NAME)
    try:
        fcntl.fcntl(held, fcntl.F_OFD_SETLKW, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0))
        yield
    finally:
        os.close(held)
