"""The order of a run, in its folder: which model, how it is annealed, and in how many parts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gpuwork.anneal.settings import AnnealSettings, as_written, check_settings
from gpuwork.errors import StoreError
from gpuwork.shared_folder import write_file
from gpuwork.strict import exactly, matching, parse_strict_json, read_fields, whole
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ORDER: Final = "order.json"
SCHEMA: Final = "gpuprov.anneal-order/v1"
MODEL: Final = "model.py"
MOST_PARTS: Final = 10_000
PARTS: Final = "parts"
NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_FIELDS: Final = {
    "schema": exactly(SCHEMA),
    "version": exactly(1),
    "name": matching(NAME),
    "code": matching(r"[0-9a-f]{64}"),
    "parts": whole(1, MOST_PARTS),
    "settings": lambda value: isinstance(value, dict),
}


@dataclass(frozen=True, kw_only=True)
class AnnealedRun:
    """A run in its folder.

    Attributes:
        folder: Where everything of it is.
        name: For people.
        code: The hash of the model, which is not run if it was changed.
        parts: Into how many its chains are divided.
        settings: How the model is annealed.
    """

    folder: Path
    name: str
    code: str
    parts: int
    settings: AnnealSettings

    @property
    def model(self) -> Path:
        """Its copy of the model."""
        return self.folder / MODEL

    def part(self, number: int) -> Path:
        """The folder of a part."""
        return self.folder / PARTS / str(number)


def write_annealed_run(folder: Path, *, name: str, model: str, settings: AnnealSettings, parts: int) -> AnnealedRun:
    """Copy a model and write what is asked of it; the folder is new.

    Args:
        folder: Of the run.
        name: For people.
        model: The text of the model.
        settings: How it is annealed.
        parts: Into how many its chains are divided, at most.
    """
    folder.mkdir(parents=True)
    write_file(folder / MODEL, model)
    code = hashlib.sha256(model.encode()).hexdigest()
    units = settings.thread_count // (settings.replicas or 1)
    run = AnnealedRun(folder=folder, name=name, code=code, parts=min(parts, units), settings=settings)
    (folder / PARTS).mkdir()
    write_file(folder / ORDER, json.dumps(_document(run), indent=1) + "\n")
    return run


def read_annealed_run(folder: Path) -> AnnealedRun:
    """A run whose model is as it was checked.

    Raises:
        StoreError: It is not there, or was changed.
    """
    content = read_limited(folder / ORDER)
    try:
        told = read_fields(parse_strict_json(content or b""), _FIELDS)
        settings, faults = check_settings(_written(told["settings"]), file=ORDER)
        if settings is None or faults:
            raise ValueError("; ".join(map(str, faults)))  # noqa: TRY301
    except ValueError as error:
        raise StoreError(
            f"{folder} is not a run, or was changed", evidence=f"{ORDER} {error}"[:1000], fix=f"ls -l {folder}"
        ) from error
    run = AnnealedRun(folder=folder, name=told["name"], code=told["code"], parts=told["parts"], settings=settings)
    found = hashlib.sha256(read_limited(run.model) or b"").hexdigest()
    if found != run.code:
        raise StoreError(
            f"the model of {run.name} was changed since it was checked",
            evidence=f"{run.model} is {found[:12]}, and was {run.code[:12]}",
            fix="run the model that you want again, from its own file",
        )
    return run


def _document(run: AnnealedRun) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "version": 1,
        "name": run.name,
        "code": run.code,
        "parts": run.parts,
        "settings": as_written(run.settings),
    }


def _written(told: Mapping[str, object]) -> dict[str, tuple[object, int | None]]:
    return {name: (value, None) for name, value in told.items()}
