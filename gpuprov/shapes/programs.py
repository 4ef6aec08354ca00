"""CUDA programs: as they are checked, registered and listed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gpuprov.shapes.base import Document, Record, Shape
from gpuprov.shapes.faults import Fault
from gpuprov.shapes.limits import FREE_NAME
from gpuprov.shapes.words import Count, Hash, Moment, Word

Bytes = Annotated[int, Meta(ge=0, le=2**31)]
Name = Annotated[str, Meta(pattern=rf"^{FREE_NAME}\Z")]
Target = Annotated[str, Meta(pattern=r"^(standin|sm_[0-9]{2,3})\Z", description="`standin` for machines without a GPU")]


class ProgramName(Shape, frozen=True, kw_only=True):
    """What names a program.

    Attributes:
        hash: The same wherever it lies, until one of its files changes.
    """

    hash: Hash
    name: Name
    version: Name


class SoundProgram(ProgramName, frozen=True, kw_only=True):
    """A program without faults.

    Attributes:
        makes_dataset: Its runner makes the dataset.
    """

    makes_dataset: bool


class ListedProgram(ProgramName, frozen=True, kw_only=True):
    """A registered program.

    Attributes:
        registered: When, in UTC.
    """

    registered: Moment
    built_for: tuple[Target, ...]


class TableSize(Shape, frozen=True, kw_only=True):
    """How large a table is."""

    rows: Count
    columns: Count


class Measured(Shape, frozen=True, kw_only=True):
    """What the compiler made of a structure or of a field, as a small program prints it.

    Attributes:
        name: `STRUCTURE` or `STRUCTURE.FIELD`.
    """

    name: Word
    offset: Bytes
    size: Bytes
    kind: Word


class Program(Record, frozen=True, kw_only=True, tag="gpuprov.program/v1"):
    """`program.json` of a registered program.

    Attributes:
        registered: When, in UTC.
        code: Of the frozen copy.
    """

    hash: Hash
    name: Name
    program_version: Name
    registered: Moment
    code: Hash


class ProgramChecked(Record, frozen=True, kw_only=True, tag="gpuprov.program-checked/v1"):
    """What `python3 -m gpuwork.programs check` prints.

    Attributes:
        program: Null if it has faults.
        files: That belong to the program, relative to its folder.
        table: Of --data; null without.
        left_out: What could not be checked, and why.
    """

    program: SoundProgram | None
    files: tuple[str, ...]
    table: TableSize | None
    left_out: tuple[str, ...]
    faults: tuple[Fault, ...]


class Programs(Record, frozen=True, kw_only=True, tag="gpuprov.programs/v1"):
    """What `python3 -m gpuwork.programs list` prints."""

    programs: tuple[ListedProgram, ...]


class ProgramRemoved(Record, frozen=True, kw_only=True, tag="gpuprov.program-removed/v1"):
    """What `python3 -m gpuwork.programs rm` prints."""

    program: ListedProgram


class ProgramCheck(Document, frozen=True, kw_only=True, tag="gpuprov.program-check/v1"):
    """What `gpuprov program check` prints.

    Attributes:
        host: Name of the host.
        files: That belong to the program, relative to its folder.
        rows: Of the data; null without.
        left_out: What could not be checked, and why.
    """

    host: Word
    hash: Hash
    name: Name
    program_version: Name
    files: tuple[str, ...]
    rows: Count | None
    left_out: tuple[str, ...]


class ProgramList(Document, frozen=True, kw_only=True, tag="gpuprov.program-list/v1"):
    """What `gpuprov program list` prints; and `gpuprov program rm`, of the program that was removed.

    Attributes:
        host: Name of the host.
    """

    host: Word
    cluster: Word
    programs: tuple[ListedProgram, ...]
