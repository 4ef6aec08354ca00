"""The folder of a run: what all that take part in it read, and what they leave there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from gpuprov.shapes.base import Shape, encode, parse_json, read
from gpuprov.shapes.error import Error
from gpuprov.shapes.limits import MIB
from gpuprov.shapes.program_runs import Meeting, ProgramFolder, ProgramResult, Progress
from gpuwork.errors import StoreError
from gpuwork.programs.store import Registered, read_registered
from gpuwork.shared_folder import write_file
from gpuwork.untrusted_files import read_limited

Told = TypeVar("Told", bound=Shape)
PARAMS: Final = "params.bin"
CERTIFICATE: Final = "certificate.pem"
KEY: Final = "key.pem"
TABLE: Final = "table.bin"
DATASET: Final = "dataset.bin"
_RUN: Final = "run.json"
_SCHEDULER: Final = "scheduler.json"
_PROGRESS: Final = "progress.json"
_RESULT: Final = "result.json"
_MOST_RESULT: Final = 32 * MIB


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """The folder of a run.

    Attributes:
        path: Of the folder.
        record: What it says there.
    """

    path: Path
    record: ProgramFolder

    @property
    def registered(self) -> Registered:
        """The program."""
        return read_registered(Path(self.record.program))

    @property
    def dataset(self) -> Path:
        """The file with the dataset."""
        return self.path / (TABLE if self.record.is_table else DATASET)

    @property
    def params(self) -> bytes:
        """The global parameters, encoded."""
        return read_limited(self.path / PARAMS) or b""

    def log(self, name: str) -> Path:
        """The file for what somebody prints."""
        return self.path / f"{name}.txt"

    def write(self) -> None:
        """Keep what it is."""
        write_file(self.path / _RUN, _line(self.record))

    def write_meeting(self, meeting: Meeting) -> None:
        """Tell where to meet."""
        write_file(self.path / _SCHEDULER, _line(meeting))

    def find_meeting(self) -> Meeting | None:
        """Where to meet; None if that is not known yet."""
        return self._find(Meeting, _SCHEDULER)

    def write_progress(self, progress: Progress) -> None:
        """Tell how far it is."""
        write_file(self.path / _PROGRESS, _line(progress), durable=False)

    def find_progress(self) -> Progress | None:
        """How far it is; None if that is not known."""
        return self._find(Progress, _PROGRESS)

    def _find(self, kind: type[Told], name: str) -> Told | None:
        try:
            return read(kind, read_limited(self.path / name) or b"")
        except ValueError:
            return None

    def end(self, end: ProgramResult | Error) -> None:
        """Tell how it ended, and keep nothing that is large or secret."""
        try:
            write_file(self.path / _RESULT, _line(end))
        finally:
            for name in (KEY, TABLE, DATASET):
                (self.path / name).unlink(missing_ok=True)

    def find_end(self) -> ProgramResult | Error | None:
        """How it ended; None if it has not."""
        try:
            told = parse_json(read_limited(self.path / _RESULT, limit=_MOST_RESULT) or b"")
            if not isinstance(told, dict):
                return None
            return read(Error, told) if "error" in told else read(ProgramResult, told)
        except ValueError:
            return None


def _line(told: Shape) -> str:
    return f"{encode(told).decode()}\n"


def read_run_folder(path: Path) -> RunFolder:
    """The folder of a run.

    Raises:
        StoreError: It is none.
    """
    try:
        return RunFolder(path=path, record=read(ProgramFolder, read_limited(path / _RUN) or b""))
    except ValueError as error:
        raise StoreError(f"{path} is not a run of a program", evidence=str(error), fix=f"ls -l {path}") from error
