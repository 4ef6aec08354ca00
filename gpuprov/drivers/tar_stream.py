"""A strict reader of the tars that nodes give: GNU's format, one piece after the other, nothing of it believed.

Python's own reader is made for tars of friends: it keeps headers of any size in memory, and follows chains of them by
recursion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gpuprov.core.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable

EntryKind = Literal["file", "folder", "link", "device", "FIFO"]

_BLOCK = 512
_MOST_NAME_BYTES = 16_384
_MOST_PADDING = 20 * MIB  # behind the end: tar fills its last record up
_KINDS: Final[dict[bytes, EntryKind]] = {
    b"0": "file",
    b"\0": "file",
    b"1": "link",
    b"2": "link",
    b"3": "device",
    b"4": "device",
    b"5": "folder",
    b"6": "FIFO",
}
_LONG_NAME, _LONG_TARGET = b"L", b"K"
_MAGIC = b"ustar  \0"
_BASE_256, _NEGATIVE = 0x80, 0xFF
_NUL = b"\0"


class BadTar(Exception):
    """What came is no tar, or leads out of where it is to go; says why."""


@dataclass(frozen=True, kw_only=True)
class TarEntry:
    """One thing of a tar.

    Attributes:
        parts: Its path below the tar's root, which has none itself.
        size: Bytes of a file; 0 of anything else.
        mode: Permission bits only.
        changed_s: When, as Unix time.
    """

    parts: tuple[str, ...]
    kind: EntryKind
    size: int
    mode: int
    changed_s: int


class TarStream:
    """Takes a tar in pieces of any size.

    Args:
        begin: Is told each entry.
        write: Gets the content of the file that was told last.
    """

    def __init__(self, begin: Callable[[TarEntry], object], write: Callable[[bytes], object]) -> None:
        self._begin, self._write = begin, write
        self._kept = bytearray()
        self._left = self._padding = 0  # of the present file
        self._name: bytes | None = None
        self._told: set[bytes] = set()  # what was told before the next entry
        self._ended = False
        self._behind = 0

    def take(self, piece: bytes) -> None:
        """Take a piece in.

        Raises:
            BadTar: It cannot be part of a tar.
        """
        rest = memoryview(piece)
        while rest:
            if self._ended:
                self._pass_behind(rest)
                return
            if self._left:
                self._write(bytes(rest[: self._left]))
                used = min(self._left, len(rest))
                self._left -= used
            elif self._padding:
                used = min(self._padding, len(rest))
                self._padding -= used
            else:
                used = self._gather(rest)
            rest = rest[used:]

    def finish(self) -> None:
        """Nothing comes any more.

        Raises:
            BadTar: The tar is not complete.
        """
        if not self._ended:
            raise BadTar("it is truncated")

    def _pass_behind(self, rest: memoryview) -> None:
        self._behind += len(rest)
        if bytes(rest).strip(_NUL) or self._behind > _MOST_PADDING:
            raise BadTar("it continues after its end")

    def _gather(self, rest: memoryview) -> int:
        """Collect a header, and the name behind it where it has one there."""
        wanted = _BLOCK
        if len(self._kept) >= _BLOCK:
            wanted += _blocks(self._name_bytes())
        used = min(wanted - len(self._kept), len(rest))
        self._kept += rest[:used]
        if len(self._kept) == wanted:
            self._read_header()
        return used

    def _name_bytes(self) -> int:
        size = _number(bytes(self._kept[124:136]))
        if not 0 < size <= _MOST_NAME_BYTES:
            raise BadTar(f"a name of {size} bytes")
        return size

    def _read_header(self) -> None:
        header = bytes(self._kept[:_BLOCK])
        if not header.strip(_NUL):
            self._ended = True
            return
        _check_sum(header)
        kind = header[156:157]
        if kind in (_LONG_NAME, _LONG_TARGET):
            if len(self._kept) == _BLOCK:
                self._name_bytes()  # its content is still to come
                return
            if kind in self._told:
                raise BadTar("two long names in a row")
            self._told.add(kind)
            if kind == _LONG_NAME:
                self._name = bytes(self._kept[_BLOCK : _BLOCK + self._name_bytes()]).rstrip(_NUL)
            self._kept.clear()
            return
        self._kept.clear()
        entry = _entry(header, self._name)
        self._name = None
        self._told.clear()
        self._left, self._padding = entry.size, _blocks(entry.size) - entry.size
        self._begin(entry)


def _entry(header: bytes, name: bytes | None) -> TarEntry:
    kind = _KINDS.get(header[156:157])
    if kind is None:
        raise BadTar(f"an entry of the kind {header[156:157]!r}")
    size = _number(header[124:136])
    if size and kind != "file":
        raise BadTar(f"a {kind} of {size} bytes")
    return TarEntry(
        parts=_parts(header[:100].rstrip(_NUL) if name is None else name),
        kind=kind,
        size=size,
        mode=_number(header[100:108]) & 0o777,
        changed_s=_number(header[136:148]),
    )


def _parts(name: bytes) -> tuple[str, ...]:
    text = name.decode("utf-8", "surrogateescape")
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    if ".." in parts or text.startswith("/") or "\0" in text:
        raise BadTar(f"it leads out of the folder: {text!r}")
    return parts


def _check_sum(header: bytes) -> None:
    told = header[148:156]
    if header[257:265] != _MAGIC or _number(told) != sum(header) - sum(told) + 8 * 0x20:
        raise BadTar("a header is damaged")


def _number(field: bytes) -> int:
    if field[0] == _BASE_256:
        return int.from_bytes(field[1:], "big")
    if field[0] == _NEGATIVE:  # a time before 1970
        return 0
    digits = field.rstrip(b"\0 ").lstrip(b" ")
    if digits.strip(b"01234567"):
        raise BadTar("a number is damaged")
    return int(digits or b"0", 8)


def _blocks(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
