"""What a part leaves beside its arrays: where it is, where and how fast it ran, and what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from gpuprov.shapes.anneal import AnnealPart, Failure, PartProgress
from gpuprov.shapes.base import Shape, read
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from pathlib import Path

RESULT: Final = "result.npz"
RECORD: Final = "result.json"
PROGRESS: Final = "progress.json"
FAILURE: Final = "failure.json"
LOG: Final = "log.txt"

Kind = TypeVar("Kind", bound=Shape)


def read_record(part: Path) -> AnnealPart | None:
    """What a part left; None if it has not ended, or if that is no record."""
    return _read(AnnealPart, part / RECORD)


def read_progress(part: Path) -> PartProgress | None:
    """How far a part is; None if it has not begun."""
    return _read(PartProgress, part / PROGRESS)


def read_failure(part: Path) -> Failure | None:
    """Why a part failed; None if it did not."""
    return _read(Failure, part / FAILURE)


def _read(kind: type[Kind], path: Path) -> Kind | None:
    content = read_limited(path)
    try:
        return None if content is None else read(kind, content)
    except ValueError:
        return None
