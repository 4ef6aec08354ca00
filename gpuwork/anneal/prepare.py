"""Models and configurations, paired, checked, and made into runs in a folder of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.anneal import AnnealRuns, is_run_name
from gpuprov.shapes.base import encode, read
from gpuprov.shapes.faults import Fault
from gpuprov.shapes.limits import MOST_RUNS as MOST_PARTS
from gpuwork.anneal.conf_file import read_configuration
from gpuwork.anneal.model_file import read_model
from gpuwork.anneal.order import AnnealedRun, read_annealed_run, write_annealed_run
from gpuwork.anneal.settings import check_settings
from gpuwork.anneal.validator import find_model_faults
from gpuwork.errors import StoreError, refusal
from gpuwork.shared_folder import write_file
from gpuwork.untrusted_files import read_limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpuprov.shapes.anneal_settings import AnnealSettings
    from gpuwork.anneal.model_file import ModelFile

RUNS: Final = "runs.json"
MOST_RUNS: Final = 1000
PAGE: Final = "docs/anneal.md describes models and configurations"


@dataclass(frozen=True, kw_only=True)
class ModelsOrder:
    """What is typed.

    Attributes:
        models: Files.
        configurations: Files; without one, all settings have their defaults.
        overrides: Settings that were typed, by name.
        with_settings: Whether settings are looked at; else only models are, and configurations if there are any.
    """

    models: Sequence[Path]
    configurations: Sequence[Path] = ()
    overrides: Mapping[str, object] | None = None
    with_settings: bool = True


@dataclass(frozen=True, kw_only=True)
class AnnealPair:
    """A model and how it is annealed."""

    name: str
    model: ModelFile
    settings: AnnealSettings


def check_pairs(order: ModelsOrder) -> tuple[list[AnnealPair], list[Fault]]:
    """The runs that are asked for, and everything that is wrong with what they need; nothing is executed."""
    faults: list[Fault] = []
    models: list[ModelFile | None] = []
    for path in order.models:
        model, found = read_model(path.resolve(), file=str(path))
        faults += found + (find_model_faults(model) if model is not None else [])
        models.append(model)
    read = [(path, *read_configuration(path.resolve(), file=str(path))) for path in order.configurations]
    faults += [fault for _, _, found in read for fault in found]
    count = len(models), max(1, len(read))
    if count[0] > 1 and count[1] > 1 and count[0] != count[1]:
        message = f"{count[0]} models and {count[1]} configurations cannot be paired"
        faults.append(Fault(file="command line", message=message, allowed="one of either, or equal numbers of both"))
        return [], faults
    if not order.with_settings and not read:
        return [], faults
    written = [(str(path), values) for path, values, found in read if values or not found]
    if not read:
        written = [("settings", {})]
    if len(written) < len(read):  # one cannot be read at all
        return [], faults
    pairs, names = [], set()
    for number in range(max(count)):
        model, path = models[number % count[0]], order.models[number % count[0]]
        file, values = written[number % len(written)]
        settings, found = _settle(model, values, file, order.overrides or {})
        faults += [fault for fault in found if fault not in faults]
        name = path.stem[:40] + (
            f"-{order.configurations[number % len(written)].stem[:20]}" if len(written) > 1 else ""
        )
        if name in names:
            name = f"{name}-{number}"
        names.add(name)
        if not is_run_name(name):
            faults.append(
                Fault(file=str(path), message=f"cannot be the name of a run: {name}", allowed="letters, digits, . _ -")
            )
        elif model is not None and settings is not None:
            pairs.append(AnnealPair(name=name, model=model, settings=settings))
    return (pairs if not faults else []), faults


def _settle(
    model: ModelFile | None, values: Mapping[str, tuple[object, int | None]], file: str, overrides: Mapping[str, object]
) -> tuple[AnnealSettings | None, list[Fault]]:
    """Settings of a pair: what is typed goes before the configuration, and that before the model."""
    of_model = dict(model.numbers) if model is not None else {"dimensions": (0, None)}
    merged = {**of_model, **values, **{name: (value, None) for name, value in overrides.items()}}
    settings, faults = check_settings(merged, file=file)
    if model is None:
        return settings, faults
    own = {name for name in of_model if name not in values and name not in overrides}
    return settings, [
        Fault(file=model.file, line=fault.line, where=fault.where, message=fault.message, allowed=fault.allowed)
        if fault.where in own
        else fault
        for fault in faults
    ]


def prepare(order: ModelsOrder, folder: Path, *, parts: int) -> list[AnnealedRun]:
    """Write the runs into a new folder.

    Args:
        order: What is typed.
        folder: A new one.
        parts: Into how many parts the chains of a run are divided, at most.

    Raises:
        Refused: With every fault; nothing was written.
        StoreError: The folder is there already, or cannot be written.
    """
    pairs, faults = check_pairs(order)
    if not 1 <= parts <= MOST_PARTS:
        faults.append(Fault(file="command line", where="parts", message=f"is {parts}", allowed=f"1 to {MOST_PARTS:,}"))
    if len(pairs) > MOST_RUNS:
        faults.append(
            Fault(file="command line", message=f"asks for {len(pairs):,} runs", allowed=f"at most {MOST_RUNS:,}")
        )
    if faults:
        raise refusal(faults, of="the models and configurations", page=PAGE)
    try:
        folder.mkdir(parents=True)
        runs = [
            write_annealed_run(
                folder / pair.name, name=pair.name, model=pair.model.text, settings=pair.settings, parts=parts
            )
            for pair in pairs
        ]
        write_file(folder / RUNS, f"{encode(AnnealRuns(runs=tuple(run.order.name for run in runs))).decode()}\n")
    except FileExistsError as error:
        raise StoreError(
            "the folder already exists, and results are never overwritten", evidence=str(error.filename or folder),
            fix="name another folder with --out",
        ) from error  # fmt: skip
    except OSError as error:
        raise StoreError("the runs cannot be written", evidence=str(error), fix=f"ls -ld {folder.parent}") from error
    return runs


def open_runs(folder: Path) -> list[AnnealedRun]:
    """The runs of a folder, in their order.

    Raises:
        StoreError: There are none, or they were changed.
    """
    try:
        told = read(AnnealRuns, read_limited(folder / RUNS) or b"")
    except ValueError as error:
        raise StoreError(f"{folder} has no runs", evidence=f"{RUNS} {error}"[:500], fix=f"ls -l {folder}") from error
    return [read_annealed_run(folder / name) for name in told.runs]


def get_part(runs: Sequence[AnnealedRun], number: int) -> tuple[AnnealedRun, int]:
    """Which part of which run a number stands for: the parts of all runs, one after the other.

    Raises:
        StoreError: There is no such part.
    """
    left = number
    for run in runs:
        if 0 <= left < run.order.parts:
            return run, left
        left -= run.order.parts
    total = sum(run.order.parts for run in runs)
    raise StoreError(
        f"there is no part {number}", evidence=f"there are parts 0 to {total - 1}", fix="name one of these"
    )
