"""The folder of a run: what all that take part in it read, and what they leave there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuwork.errors import StoreError
from gpuwork.programs.store import Registered, read_registered
from gpuwork.shared_folder import write_file
from gpuwork.strict import exactly, is_flag, is_text, optional, parse_strict_json, read_fields, whole
from gpuwork.units import MIB
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from gpuwork.errors import WorkError

SCHEMA: Final = "gpuprov.program-folder/v1"
RESULT_SCHEMA: Final = "gpuprov.program-result/v1"
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
_PORT: Final = whole(1, 65535)


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """Where the workers of a run meet.

    Attributes:
        address: Of the scheduler.
        node: The machine that it is on.
        page: The port of Dask's page there, on 127.0.0.1; None if Dask has none.
        number: Which scheduler of this run it is: one that was started again is another one.
    """

    address: str
    node: str
    page: int | None
    number: str


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """The folder of a run.

    Attributes:
        path: Of the folder.
        program: The folder of the program in the store.
        workers: How many there are to be.
        is_table: Whether the dataset is the table as it was read.
        local: Whether everything is on this machine.
    """

    path: Path
    program: str
    workers: int
    is_table: bool
    local: bool

    @property
    def registered(self) -> Registered:
        """The program."""
        return read_registered(Path(self.program))

    @property
    def dataset(self) -> Path:
        """The file with the dataset."""
        return self.path / (TABLE if self.is_table else DATASET)

    @property
    def params(self) -> bytes:
        """The global parameters, encoded."""
        return read_limited(self.path / PARAMS) or b""

    def log(self, name: str) -> Path:
        """The file for what somebody prints."""
        return self.path / f"{name}.txt"

    def write(self) -> None:
        """Keep what it is."""
        document = {"schema": SCHEMA, "version": 1, **asdict(self), "path": str(self.path)}
        write_file(self.path / _RUN, json.dumps(document, indent=1) + "\n")

    def write_meeting(self, meeting: Meeting) -> None:
        """Tell where to meet."""
        write_file(self.path / _SCHEDULER, json.dumps(asdict(meeting)) + "\n")

    def find_meeting(self) -> Meeting | None:
        """Where to meet; None if that is not known yet."""
        content = read_limited(self.path / _SCHEDULER)
        if content is None:
            return None
        kinds = {"address": is_text, "node": is_text, "page": optional(_PORT), "number": is_text}
        try:
            return Meeting(**read_fields(parse_strict_json(content), kinds))
        except ValueError:
            return None

    def write_progress(self, told: dict[str, Any]) -> None:
        """Tell how far it is."""
        write_file(self.path / _PROGRESS, json.dumps(told) + "\n", durable=False)

    def find_progress(self) -> dict[str, Any] | None:
        """How far it is; None if that is not known."""
        try:
            told = parse_strict_json(read_limited(self.path / _PROGRESS) or b"")
        except ValueError:
            return None
        return told if isinstance(told, dict) else None

    def end(self, document: dict[str, Any]) -> None:
        """Tell how it ended, and keep nothing that is large or secret."""
        try:
            write_file(self.path / _RESULT, json.dumps(document) + "\n")
        finally:
            for name in (KEY, TABLE, DATASET):
                (self.path / name).unlink(missing_ok=True)

    def find_end(self) -> dict[str, Any] | None:
        """How it ended: a result or an error; None if it has not."""
        content = read_limited(self.path / _RESULT, limit=_MOST_RESULT)
        try:
            told = parse_strict_json(content) if content is not None else None
        except ValueError:
            return None
        return told if isinstance(told, dict) else None


def read_run_folder(path: Path) -> RunFolder:
    """The folder of a run.

    Raises:
        StoreError: It is none.
    """
    kinds = {
        "schema": exactly(SCHEMA), "version": exactly(1), "path": is_text, "program": is_text,
        "workers": whole(1, 10_000), "is_table": is_flag, "local": is_flag,
    }  # fmt: skip
    try:
        told = read_fields(parse_strict_json(read_limited(path / _RUN) or b""), kinds)
    except ValueError as error:
        raise StoreError(f"{path} is not a run of a program", evidence=str(error), fix=f"ls -l {path}") from error
    return RunFolder(
        path=path, program=told["program"], workers=told["workers"], is_table=told["is_table"], local=told["local"]
    )


def render_error(error: WorkError) -> dict[str, Any]:
    """An error as a document."""
    told = {"what": error.what, "evidence": error.evidence, "fix": error.fix, "exit_code": error.exit_code}
    return {"schema": "gpuprov.error/v1", "version": 1, "error": told}
