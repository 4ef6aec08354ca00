"""A table of numbers: read from CSV a line at a time, kept as a file that many processes map and nobody holds."""

from __future__ import annotations

import ctypes
import errno
import math
import mmap
import os
import stat
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final

from gpuprov.shapes.faults import Fault
from gpuprov.shapes.limits import MIB
from gpuwork.programs.codec import ALIGNED, address_of, decode, without_arrays

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_FAULTS: Final = 20
_MOST_LINE: Final = 16 * MIB
_PIECE: Final = MIB
_MAP_NORESERVE: Final = 0x4000  # a table may be larger than the memory
_BOM: Final = b"\xef\xbb\xbf"


class Table(ctypes.Structure):
    """A table in memory, row after row."""

    _fields_: ClassVar = [
        ("rows", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("values", ctypes.POINTER(ctypes.c_double)),
    ]
    dynamic: ClassVar = {"values": ("rows", "columns")}


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """How large a table is, and what its columns are called; no names if the file has none."""

    rows: int
    columns: int
    names: tuple[str, ...]


class TableReader:
    """Reads a CSV file of numbers, with or without a line of names.

    Attributes:
        faults: What is wrong with it, the first of these.
        shape: Of what was read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._columns = self._rows = 0
        self._names: tuple[str, ...] = ()
        self.faults: list[Fault] = []

    @property
    def shape(self) -> TableShape:
        """Of what was read."""
        return TableShape(rows=self._rows, columns=self._columns, names=self._names)

    def batches(self) -> Iterator[array[float]]:
        """The numbers, row after row; ends early where too much is wrong.

        Raises:
            OSError: It cannot be read, or is not a regular file.
        """
        with _opened(self._path) as file:
            number = 1
            while len(self.faults) < MOST_FAULTS:
                piece = file.read(_PIECE)
                if not piece:
                    break
                piece += b"" if piece.endswith(b"\n") else file.readline(_MOST_LINE)
                lines = piece.removesuffix(b"\n").split(b"\n")
                yield self._quickly(lines) or self._carefully(lines, number)
                number += len(lines)
        if not self._rows and not self.faults:
            self._fault(None, "has no row of numbers", "a CSV file: a row on each line")

    def _quickly(self, lines: list[bytes]) -> array[float] | None:
        """The numbers on lines that are all as they should be; None where that is not sure."""
        if not self._columns or {line.count(b",") for line in lines} != {self._columns - 1}:
            return None
        joined = b",".join(lines)
        try:
            numbers = array("d", map(float, joined.split(b",")))
        except ValueError:
            return None
        if b"_" in joined or not math.isfinite(sum(numbers)):
            return None
        self._rows += len(lines)
        return numbers

    def _carefully(self, lines: list[bytes], first: int) -> array[float]:
        """The numbers on lines, of which `first` is the number of the first one, and what is wrong with them."""
        batch: array[float] = array("d")
        for number, line in enumerate(lines, first):
            if len(line) >= _MOST_LINE:
                self._fault(number, f"has {_MOST_LINE} bytes or more", "a shorter line")
            else:
                batch.extend(self._row(line, number))
            if len(self.faults) >= MOST_FAULTS:
                break
        return batch

    def _row(self, line: bytes, number: int) -> array[float]:
        """The numbers on a line; none where it is empty, has the names, or is wrong."""
        cells = line.removeprefix(_BOM if number == 1 else b"").strip().split(b",")
        nothing: array[float] = array("d")
        if cells == [b""]:
            return nothing
        try:
            row = array("d", map(float, cells))
            if b"_" in line or not math.isfinite(sum(row)):
                raise ValueError  # noqa: TRY301  (one of them may be wrong)
        except ValueError:
            return self._odd_row(cells, number)
        return self._counted(row, number)

    def _odd_row(self, cells: list[bytes], number: int) -> array[float]:
        row: array[float] = array("d")
        wrong = []
        for column, cell in enumerate(cells, 1):
            try:
                value = math.nan if b"_" in cell else float(cell)
            except ValueError:
                value = math.nan
            row.append(value)
            if not math.isfinite(value):
                wrong.append((column, cell))
        if wrong and not self._columns and not self.faults and all(not _is_number(cell) for cell in cells):
            self._names = tuple(cell.decode(errors="replace").strip().strip('"')[:100] for cell in cells)
            self._columns = len(cells)
            return array("d")
        if wrong:
            column, cell = wrong[0]
            shown = ascii(cell.decode(errors="replace")[:40])
            self._fault(number, f"column {column} is {shown}", "a finite number, such as 1.5e-3")
            return array("d")
        return self._counted(row, number)

    def _counted(self, row: array[float], number: int) -> array[float]:
        self._columns = self._columns or len(row)
        if len(row) != self._columns:
            self._fault(number, f"has {len(row)} values", f"{self._columns}, as on the lines before")
            return array("d")
        self._rows += 1
        return row

    def _fault(self, line: int | None, message: str, allowed: str = "") -> None:
        self.faults.append(Fault(file=self._path.name, line=line, message=message, allowed=allowed))


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _opened(path: Path) -> BinaryIO:
    """A regular file: nobody may be at the other end of a pipe, and a device may have no end."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def check_table(path: Path) -> tuple[TableShape, list[Fault]]:
    """How large a CSV file is, and what is wrong with it; nothing of it is kept.

    Raises:
        OSError: It cannot be read.
    """
    reader = TableReader(path)
    for _ in reader.batches():
        pass
    return reader.shape, reader.faults


def write_table(path: Path, target: Path) -> tuple[TableShape, list[Fault]]:
    """Turn a CSV file into a file that `open_table` maps; what is wrong with it, and then there is no such file.

    Raises:
        OSError: It cannot be read or written.
    """
    reader = TableReader(path)
    part = target.with_name(f".{target.name}.part")
    with part.open("wb") as file:
        file.seek(ALIGNED)
        for batch in reader.batches():
            batch.tofile(file)
        file.truncate(max(ALIGNED, -(-file.tell() // ALIGNED) * ALIGNED))
        file.seek(0)
        file.write(_head(reader.shape))
    if reader.faults:
        part.unlink()
    else:
        part.replace(target)
    return reader.shape, reader.faults


def _head(shape: TableShape) -> bytes:
    """What stands before the numbers: the structure without its array."""
    return bytes(without_arrays(Table(rows=shape.rows, columns=shape.columns)))


class MappedFile:
    """An encoded structure in a file, mapped: it is in memory as far as somebody looks at it."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            flags, access = mmap.MAP_PRIVATE | _MAP_NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
            self._map = mmap.mmap(file.fileno(), 0, flags=flags, prot=access)
        self._map.madvise(mmap.MADV_SEQUENTIAL)

    def decoded(self, kind: type[ctypes.Structure]) -> ctypes.Structure:
        """The structure, whose arrays are in the mapping.

        Raises:
            ValueError: The file has another one.
        """
        return decode(kind, self._map, address_of(self._map))
