"""A queue of processes in one file: each holds the lock of a slot of it, so that a killed one is out of it at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuprov.core.errors import HostNotReady
from gpuprov.core.group_files import QUEUE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.core.group_files import Gates

SLOT_BYTES = 65536  # what is not written takes no room on the disk
_RECORD = struct.Struct("<QdI")  # number, since when, length of the text
_LOCK = struct.Struct("hhqqi")  # the kernel's `struct flock`
_LARGEST = 2**63  # of what may be nonsense, so that there is a next one
_ENDLESS = 0  # a length that the kernel takes for all there is
_GATE, _FIRST = 0, 1  # slots: that of who looks or joins, and the first ticket's


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """A place in the queue.

    Attributes:
        text: What its owner wrote; not to be trusted.
        since_s: When it was written, in seconds since 1970.
    """

    number: int
    text: str
    since_s: float


class Queue:
    """The processes that wait on this host, in order of arrival.

    Locks are of open files (`F_OFD_SETLK`): the kernel releases them when their process ends, and two of one process
    exclude each other.

    Args:
        gates: Who may stand in it, and where it is.
        name: Of its file.
    """

    def __init__(self, gates: Gates, name: str = QUEUE_NAME) -> None:
        self._gates = gates
        self._name = name

    @contextlib.contextmanager
    def join(self, text: str) -> Iterator[QueuePlace]:
        """Wait at the end of the queue for the block, or until `QueuePlace.leave`.

        Raises:
            HostNotReady: This user may not stand in it.
        """
        descriptor = self._gates.open(self._name)
        try:
            place = _join(descriptor, text)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                fix = f"ls -lR {self._gates.place}"
                raise HostNotReady("cannot wait in the queue", evidence=str(error), fix=fix) from error
            raise
        try:
            yield place
        finally:
            place.leave()

    def waiting(self) -> tuple[Ticket, ...]:
        """Every ticket whose owner lives, the oldest first."""
        with contextlib.suppress(OSError, HostNotReady):
            descriptor = self._gates.open_existing(self._name)
            try:
                return _tickets(descriptor)
            finally:
                os.close(descriptor)
        return ()


class QueuePlace:
    """One's own place in the queue."""

    def __init__(self, descriptor: int, *, slot: int, ticket: Ticket) -> None:
        self.number = ticket.number
        self._ticket = ticket
        self._slot = slot
        self._descriptor: int | None = descriptor

    def ahead(self) -> tuple[Ticket, ...]:
        """Who came earlier and is still there, the oldest first."""
        if self._descriptor is None:
            return ()
        return tuple(ticket for ticket in _tickets(self._descriptor) if ticket.number < self.number)

    def renew(self) -> None:
        """Write down that something has begun now."""
        if self._descriptor is not None:
            with _held(self._descriptor):
                _write(self._descriptor, self._slot, replace(self._ticket, since_s=time.time()))

    def leave(self) -> None:
        """Go; no change if one has gone. Who stood here is nobody's business any more."""
        if self._descriptor is not None:
            try:
                with contextlib.suppress(OSError), _held(self._descriptor):
                    _write(self._descriptor, self._slot, Ticket(number=0, text="", since_s=0))
            finally:
                os.close(self._descriptor)  # which also releases the lock
                self._descriptor = None


def _join(descriptor: int, text: str) -> QueuePlace:
    with _held(descriptor):
        there = _read_all(descriptor)
        slot = next(number for number in range(_FIRST, len(there) + _FIRST + 1) if number not in there)
        number = max((ticket.number for ticket in there.values()), default=0) + 1
        ticket = Ticket(number=number, text=text, since_s=time.time())
        _write(descriptor, slot, ticket)
        _lock(descriptor, fcntl.F_OFD_SETLK, fcntl.F_WRLCK, slot)
    return QueuePlace(descriptor, slot=slot, ticket=ticket)


@contextlib.contextmanager
def _held(descriptor: int) -> Iterator[None]:
    """Nobody else looks or joins meanwhile; a matter of a moment."""
    _lock(descriptor, fcntl.F_OFD_SETLKW, fcntl.F_WRLCK, _GATE)
    try:
        yield
    finally:
        _lock(descriptor, fcntl.F_OFD_SETLK, fcntl.F_UNLCK, _GATE)


def _tickets(descriptor: int) -> tuple[Ticket, ...]:
    with _held(descriptor):
        there = _read_all(descriptor)
    return tuple(sorted(there.values(), key=lambda ticket: ticket.number))


def _read_all(descriptor: int) -> dict[int, Ticket]:
    """The tickets of others who live, by slot."""
    return {slot: _read(descriptor, slot) for slot in sorted(_taken(descriptor))}


def _taken(descriptor: int) -> Iterator[int]:
    """The slots that others hold, in no order. The kernel is asked, as the file's length is what anybody made of it."""
    ranges = [(_FIRST, _ENDLESS)]
    while ranges:
        first, end = ranges.pop()
        slots = end - first if end else _ENDLESS
        kind, _, start, length, _ = _lock(descriptor, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, first, slots=slots)
        if kind == fcntl.F_UNLCK:
            continue
        slot = max(first, start // SLOT_BYTES)
        after = max(slot + 1, -(-(start + length) // SLOT_BYTES))
        yield slot
        if slot > first:
            ranges.append((first, slot))
        if length != _ENDLESS and (end == _ENDLESS or after < end):
            ranges.append((after, end))


def _read(descriptor: int, slot: int) -> Ticket:
    number, since_s, text = _read_record(descriptor, slot)
    return Ticket(number=number, text=text.decode(errors="replace"), since_s=since_s)


def _read_record(descriptor: int, slot: int) -> tuple[int, float, bytes]:
    at = slot * SLOT_BYTES
    number, since_s, length = _RECORD.unpack(os.pread(descriptor, _RECORD.size, at).ljust(_RECORD.size, b"\0"))
    text = os.pread(descriptor, min(length, SLOT_BYTES - _RECORD.size), at + _RECORD.size)
    return min(number, _LARGEST), since_s, text


def _write(descriptor: int, slot: int, ticket: Ticket) -> None:
    """Write a ticket over what was there before."""
    text = ticket.text.encode(errors="replace")[: SLOT_BYTES - _RECORD.size]
    *_, before = _read_record(descriptor, slot)
    record = _RECORD.pack(ticket.number, ticket.since_s, len(text)) + text.ljust(len(before), b"\0")
    os.pwrite(descriptor, record, slot * SLOT_BYTES)


def _lock(descriptor: int, command: int, kind: int, slot: int, *, slots: int = 1) -> tuple[int, ...]:
    asked = _LOCK.pack(kind, os.SEEK_SET, slot * SLOT_BYTES, slots * SLOT_BYTES, 0)
    return _LOCK.unpack(fcntl.fcntl(descriptor, command, asked))
