"""Programs that are registered: each in a folder that has its hash as name, with a frozen copy and what was built."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import IO, TYPE_CHECKING, Final

from gpuprov.shapes.base import encode, read
from gpuprov.shapes.programs import ListedProgram, Program
from gpuwork.errors import Refused, StoreError
from gpuwork.freeze import check_copy, freeze, hash_files, remove_copy
from gpuwork.programs.config import read_config
from gpuwork.record import utc_moment
from gpuwork.shared_folder import locked, write_file
from gpuwork.untrusted_files import has_entry, names_in, open_anew, read_limited

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gpuwork.programs.config import ProgramConfig

_FILE: Final = "program.json"
_CODE: Final = "code"
_BUILT: Final = "built"
_HASH: Final = r"[0-9a-f]{64}"
_IN_USE: Final = ".in-use"
_SHORTEST: Final = 6
_LIBRARY: Final = re.compile(r"(standin|sm_\d{2,3})-[0-9a-f]{12}\.so")


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A registered program.

    Attributes:
        folder: In the store.
        record: What it says there.
    """

    folder: Path
    record: Program

    @property
    def hash(self) -> str:
        """Names it."""
        return self.record.hash

    @property
    def code(self) -> Path:
        """The frozen copy."""
        return self.folder / _CODE / self.record.code

    @property
    def listed(self) -> ListedProgram:
        """As it is listed."""
        return ListedProgram(
            hash=self.hash, name=self.record.name, version=self.record.program_version,
            registered=self.record.registered, built_for=tuple(self.targets),
        )  # fmt: skip

    @property
    def built(self) -> Path:
        """The folder for what is built of it."""
        return self.folder / _BUILT

    @property
    def targets(self) -> list[str]:
        """For which kinds of GPU it is built."""
        try:
            listed = names_in(self.built, within=self.folder.parent)
        except OSError:
            return []
        names = map(_LIBRARY.fullmatch, listed)
        return sorted({found[1] for found in names if found})

    def read_config(self) -> ProgramConfig:
        """What its `config.yaml` says.

        Raises:
            StoreError: Somebody changed the frozen copy.
        """
        check_copy(self.code)
        config, _, faults = read_config(self.code)
        if config is None:
            raise _changed(self.folder, str(faults[0]))
        return config


def register(folder: Path, files: Sequence[str], config: ProgramConfig, program: str, *, store: Path) -> Registered:
    """Keep a frozen copy of a program; nothing is done if it is there.

    Args:
        folder: Of the program.
        files: That belong to it.
        config: What its `config.yaml` says.
        program: Its hash.
        store: Of the programs.

    Raises:
        Refused: The files changed meanwhile.
        StoreError: It cannot be written.
    """
    place = store / program
    try:
        with locked(store):
            if not (place / _FILE).exists():
                place.mkdir(exist_ok=True)
                code = hash_files(folder, files)
                freeze(folder, files, code=code, into=place / _CODE)
                record = Program(
                    hash=program, name=config.name, program_version=config.version,
                    registered=utc_moment(datetime.now(timezone.utc)), code=code,
                )  # fmt: skip
                write_file(place / _FILE, f"{encode(record).decode()}\n")
    except OSError as error:
        raise StoreError(
            "the program cannot be registered", evidence=str(error), fix=f"df -h {store}; ls -ld {store}"
        ) from error
    return read_registered(place)


def read_registered(place: Path) -> Registered:
    """What a folder of the store says.

    Raises:
        StoreError: It is not as it was written.
    """
    try:
        record = read(Program, read_limited(place / _FILE, within=place.parent) or b"")
    except ValueError as error:
        raise _changed(place, str(error)) from error
    if record.hash != place.name:
        raise _changed(place, f"{_FILE} belongs to {record.hash[:12]}")
    return Registered(folder=place, record=record)


def registered_programs(store: Path) -> list[Registered]:
    """All, those that were registered last first; what is being registered, or was changed, is not among them."""
    programs = []
    for name in _hashes(store):
        with suppress(StoreError):  # one that a job changed is told when it is named
            programs.append(read_registered(store / name))
    return sorted(programs, key=lambda one: (one.record.registered, one.hash), reverse=True)


def _hashes(store: Path) -> list[str]:
    try:
        names = names_in(store, folders=True)
    except FileNotFoundError:
        return []
    return [name for name in names if re.fullmatch(_HASH, name) and has_entry(store / name / _FILE)]


def get_program(store: Path, text: str) -> Registered:
    """The program that a hash, or the beginning of one, names.

    Raises:
        Refused: There is none, or more than one.
        StoreError: Somebody changed it.
    """
    known = [one.hash for one in registered_programs(store)]
    found = [name for name in _hashes(store) if name.startswith(text)] if re.fullmatch(r"[0-9a-f]+", text) else []
    if len(found) != 1 or len(text) < _SHORTEST:
        shown = ", ".join(name[:12] for name in (found or known)[:5]) or "there are none"
        raise Refused(
            f"{text[:80]!r} names {'more than one program' if len(found) > 1 else 'no program'}",
            evidence=f"{_SHORTEST} characters of a hash or more; registered: {shown}",
            fix="python3 -m gpuwork.programs list",
        )
    return read_registered(store / found[0])


def remove_registered(program: Registered) -> None:
    """Remove a program with all that was built of it.

    Raises:
        Refused: It is in use.
        StoreError: It cannot be removed.
    """
    with _open_lock(program) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"program {program.hash[:12]} is in use",
                evidence=f"{program.folder / _IN_USE} is locked by a run",
                fix="wait until its run has ended, or end the run",
            ) from None
        _remove(program)


def _remove(program: Registered) -> None:
    try:
        (program.folder / _FILE).unlink()
        remove_copy(program.folder)
    except OSError as error:
        raise StoreError("the program cannot be removed", evidence=str(error), fix=f"ls -l {program.folder}") from error


@contextmanager
def in_use(program: Registered) -> Iterator[None]:
    """Keep a program from being removed during the block; the kernel frees a killed process's lock."""
    with _open_lock(program) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def _open_lock(program: Registered) -> IO[bytes]:
    return os.fdopen(open_anew(program.folder / _IN_USE, os.O_RDWR), "rb")


def _changed(place: Path, evidence: str) -> StoreError:
    return StoreError(
        f"{place} is not a registered program, or was changed", evidence=evidence[:500], fix=f"ls -l {place}"
    )
