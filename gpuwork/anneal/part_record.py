"""What a part leaves beside its arrays: where it is, where and how fast it ran, and what went wrong. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuwork.anneal.trouble import MOST_TOLD, Trouble
from gpuwork.strict import (
    exactly,
    is_flag,
    is_text,
    listing,
    matching,
    optional,
    parse_strict_json,
    read_fields,
    whole,
)
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from pathlib import Path

RESULT: Final = "result.npz"
RECORD: Final = "result.json"
PROGRESS: Final = "progress.json"
FAILURE: Final = "failure.json"
LOG: Final = "log.txt"
PHASES: Final = ("compile", "divide", "run", "write")
_MANY: Final = 10**15
_SCHEMA: Final = "gpuprov.anneal-part/v1"


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


_TROUBLE: Final = {
    "chain": whole(0, _MANY),
    "step": whole(0, _MANY),
    "kind": exactly("error", "warning"),
    "message": is_text,
}
_RECORD: Final = {
    "schema": exactly(_SCHEMA),
    "version": exactly(1),
    "first": whole(0, _MANY),
    "chains": whole(1, _MANY),
    "node": is_text,
    "gpus": listing(matching(r"[A-Za-z0-9/-]{1,100}")),
    "device": is_text,
    "simulated": is_flag,
    "block": whole(1, 1024),
    "rate": _is_number,
    "steps": whole(0, _MANY),
    "best": optional(_is_number),
    "seconds": _is_number,
    "errors": whole(0, _MANY),
    "warnings": whole(0, _MANY),
    "troubles": lambda value: isinstance(value, list) and len(value) <= MOST_TOLD,
}
_PROGRESS: Final = {
    "phase": exactly(*PHASES),
    "step": whole(0, _MANY),
    "best": optional(_is_number),
}
_FAILURE: Final = {"type": is_text, "exception": is_text, "message": is_text}


@dataclass(frozen=True, kw_only=True)
class PartRecord:
    """A part that has ended.

    Attributes:
        first: The number of its first chain.
        chains: How many it has.
        node: Where it ran.
        gpus: UUIDs of the GPUs that it saw.
        device: The name of the one that it used.
        simulated: Whether that is simulated.
        block: Threads of a block.
        rate: Steps of a chain in a second, of all its chains together.
        steps: How many its longest chain did.
        best: The best value of its chains; None if none has one.
        seconds: How long its chains ran.
        errors: How many chains have an error.
        warnings: How many have a warning.
        troubles: The first of these.
    """

    first: int
    chains: int
    node: str
    gpus: tuple[str, ...]
    device: str
    simulated: bool
    block: int
    rate: float
    steps: int
    best: float | None
    seconds: float
    errors: int
    warnings: int
    troubles: tuple[Trouble, ...]


@dataclass(frozen=True, kw_only=True)
class PartProgress:
    """How far a part is; `best` is None until a chain has a value."""

    phase: str
    step: int = 0
    best: float | None = None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a part has no result, as the predecessor told it: `message` has the traceback."""

    type: str
    exception: str
    message: str


def render_record(record: PartRecord) -> str:
    """As a file has it."""
    return json.dumps({"schema": _SCHEMA, "version": 1, **asdict(record)}, indent=1) + "\n"


def read_record(part: Path) -> PartRecord | None:
    """What a part left; None if it has not ended, or if that is no record."""
    told = _read(part / RECORD, _RECORD)
    if told is None:
        return None
    try:
        troubles = tuple(Trouble(**read_fields(one, _TROUBLE)) for one in told["troubles"])
    except ValueError:
        return None
    fields = {name: value for name, value in told.items() if name not in ("schema", "version")}
    return PartRecord(**{**fields, "gpus": tuple(told["gpus"]), "troubles": troubles})


def read_progress(part: Path) -> PartProgress | None:
    """How far a part is; None if it has not begun."""
    told = _read(part / PROGRESS, _PROGRESS)
    return PartProgress(**told) if told is not None else None


def read_failure(part: Path) -> Failure | None:
    """Why a part failed; None if it did not."""
    told = _read(part / FAILURE, _FAILURE)
    return Failure(**told) if told is not None else None


def _read(path: Path, fields: Any) -> dict[str, Any] | None:  # noqa: ANN401  (names to kinds)
    content = read_limited(path)
    if content is None:
        return None
    try:
        return read_fields(parse_strict_json(content), fields)
    except ValueError:
        return None
