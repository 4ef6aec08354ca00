"""Makes the folder of a run: its program registered, its parameters, its dataset as a file, its certificate."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuprov.shapes.faults import Fault
from gpuprov.shapes.program_answers import MadeDataset
from gpuprov.shapes.program_runs import ProgramFolder
from gpuwork.errors import Refused, StoreError, refusal
from gpuwork.programs.certificate import make_certificate
from gpuwork.programs.check import examine_program
from gpuwork.programs.process import ProgramError, ProgramProcess
from gpuwork.programs.run_folder import DATASET, PARAMS, TABLE, RunFolder
from gpuwork.programs.store import register
from gpuwork.programs.table import write_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuwork.programs.check import SoundProgram
    from gpuwork.programs.toolkit import Toolkit

PAGE = "docs/programs.md describes a program"


def require_sound(folder: Path, toolkit: Toolkit, settings: Mapping[str, Any] | None = None) -> SoundProgram:
    """A program without faults.

    Raises:
        Refused: With all of them.
    """
    checked, faults = examine_program(folder, toolkit, settings=settings, compiles=False)
    if checked is None:
        raise refusal(faults, of=f"the program {folder.name}", page=PAGE)
    return checked


def prepare_run(  # noqa: PLR0913  (what a run is made of)
    folder: Path,
    data: Path | None,
    *,
    settings: Mapping[str, Any],
    workers: int,
    local: bool,
    store: Path,
    run: Path,
    toolkit: Toolkit,
) -> RunFolder:
    """Register a program and make the folder of a run.

    Args:
        folder: Of the program.
        data: A CSV file; None if the program's runner makes its dataset of settings alone.
        settings: By name.
        workers: How many there are to be.
        local: Whether all of it is on this machine.
        store: Of the programs.
        run: The folder to be; empty, and nobody else's.
        toolkit: The compilers.

    Raises:
        Refused: The program, the settings or the data are wrong.
        StoreError: Something cannot be written.
    """
    checked = require_sound(folder, toolkit, settings)
    try:
        _write_dataset(checked, folder, data, settings, run)
        program = register(folder, checked.files, checked.config, checked.hash, store=store)
        record = ProgramFolder(
            path=str(run), program=str(program.folder), workers=workers, is_table=(run / TABLE).exists(), local=local
        )
        prepared = RunFolder(path=run, record=record)
        make_certificate(run)
        prepared.write()
    except (OSError, UnicodeEncodeError) as error:
        raise StoreError("the run cannot be written", evidence=str(error), fix=f"df -h {run}; ls -ld {run}") from error
    return prepared


def _write_dataset(
    checked: SoundProgram, folder: Path, data: Path | None, settings: Mapping[str, Any], run: Path
) -> None:
    if data is None and not checked.makes_dataset:
        raise Refused(
            "there is no data",
            evidence=f"the runner of program {checked.config.name} has no make_dataset, so a table is needed",
            fix="--data TABLE.csv",
        )
    if data is not None:
        try:
            _, faults = write_table(data, run / TABLE)
        except OSError as error:
            raise Refused("the data cannot be read", evidence=str(error), fix=f"ls -l {data}") from error
        if faults:
            raise refusal(
                faults, of="the data", page="a CSV file contains only numbers, and may begin with a line of names"
            )
    with tempfile.TemporaryDirectory() as place:
        try:
            with ProgramProcess(folder, checked.config, log=Path(place, "log")) as process:
                _, (params,) = process.ask("make_params", settings=dict(settings), what="make the parameters")
                (run / PARAMS).write_bytes(params)
                made, _ = process.learn(
                    MadeDataset, "make_dataset", settings=dict(settings), target=str(run / DATASET),
                    table="" if data is None else str(run / TABLE), what="make its dataset",
                )  # fmt: skip
        except ProgramError as error:
            fault = Fault(
                file=checked.config.runner or checked.config.python, message=f"{error.what}: {error.evidence}"
            )
            raise refusal([fault], of=f"the program {folder.name}", page=PAGE) from error
    if made.written and data is not None:
        (run / TABLE).unlink()  # what it was made of is not held twice
