"""The order of a run, in its folder: which model, how it is annealed, and in how many parts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.anneal import AnnealOrder
from gpuprov.shapes.base import read
from gpuwork.anneal.settings import find_conflicts
from gpuwork.errors import StoreError
from gpuwork.record import render
from gpuwork.shared_folder import write_file
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.anneal_settings import AnnealSettings

ORDER: Final = "order.json"
MODEL: Final = "model.py"
PARTS: Final = "parts"


@dataclass(frozen=True, kw_only=True)
class AnnealedRun:
    """A run in its folder, where everything of it is."""

    folder: Path
    order: AnnealOrder

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
        model: The text of the model.
        settings: How it is annealed.
        parts: Into how many its chains are divided, at most.
    """
    folder.mkdir(parents=True)
    write_file(folder / MODEL, model)
    units = settings.thread_count // (settings.replicas or 1)
    code = hashlib.sha256(model.encode()).hexdigest()
    order = AnnealOrder(name=name, code=code, parts=min(parts, units), settings=settings)
    (folder / PARTS).mkdir()
    write_file(folder / ORDER, render(order))
    return AnnealedRun(folder=folder, order=order)


def read_annealed_run(folder: Path) -> AnnealedRun:
    """A run whose model is as it was checked.

    Raises:
        StoreError: It is not there, or was changed.
    """
    content = read_limited(folder / ORDER)
    try:
        order = read(AnnealOrder, content or b"")
        conflicts = [*find_conflicts(order.settings, {}, file=ORDER)]
        if conflicts:
            raise ValueError("; ".join(map(str, conflicts)))  # noqa: TRY301
    except ValueError as error:
        raise StoreError(
            f"{folder} is not a run, or was changed", evidence=f"{ORDER} {error}"[:1000], fix=f"ls -l {folder}"
        ) from error
    run = AnnealedRun(folder=folder, order=order)
    found = hashlib.sha256(read_limited(run.model) or b"").hexdigest()
    if found != order.code:
        raise StoreError(
            f"the model of {order.name} was changed since it was checked",
            evidence=f"{run.model} is {found[:12]}, and was {order.code[:12]}",
            fix="run the model that you want again, from its own file",
        )
    return run
