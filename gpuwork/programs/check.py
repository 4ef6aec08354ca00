"""Everything that is wrong with a program, found before it is run anywhere."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.base import changed
from gpuprov.shapes.faults import Fault
from gpuprov.shapes.program_answers import Examined
from gpuwork.programs.build import OLDEST_OF_NVCC, build_library, find_kernel_faults, target_of
from gpuwork.programs.config import read_config
from gpuwork.programs.identity import name_program
from gpuwork.programs.probe import find_header_faults
from gpuwork.programs.process import ProgramError, ProgramProcess
from gpuwork.programs.toolkit import STANDIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuwork.programs.config import ProgramConfig
    from gpuwork.programs.toolkit import Toolkit

NOMINAL: Final = target_of(OLDEST_OF_NVCC)  # what nvcc compiles for this, it compiles for newer GPUs


@dataclass(frozen=True, kw_only=True)
class SoundProgram:
    """A program without faults.

    Attributes:
        config: What `config.yaml` says.
        files: That belong to it, relative to its folder.
        hash: Its name among programs.
        makes_dataset: Whether its runner makes the dataset.
        left_out: What could not be checked here, and why.
    """

    config: ProgramConfig
    files: tuple[str, ...]
    hash: str
    makes_dataset: bool
    left_out: tuple[str, ...] = ()


def examine_program(
    folder: Path, toolkit: Toolkit, *, settings: Mapping[str, Any] | None = None, compiles: bool = True
) -> tuple[SoundProgram | None, list[Fault]]:
    """A program, or everything that is wrong with it.

    Args:
        folder: Of the program.
        toolkit: The compilers of this machine.
        settings: That it is to be run with; None to leave these unchecked.
        compiles: Whether it is compiled, which finds what the compiler complains about.

    Raises:
        Refused: The folder cannot be read.
        TimedOut: A compiler took too long.
    """
    config, files, faults = read_config(folder)
    if config is None:
        return None, faults
    told, faults = _examine(folder, config, settings)
    left_out: tuple[str, ...] = ()
    if toolkit.gxx is None:
        left_out = ("the header and the C functions, because there is no g++ here",)
    else:
        faults += find_header_faults(folder, config, told.structures if told else {}, toolkit)
        if compiles:
            found, left_out = _compile(folder, config, toolkit)
            faults += [fault for fault in found if fault not in faults]
    if faults:
        return None, faults
    checked = SoundProgram(
        config=config, files=tuple(files), hash=name_program(config, folder, files),
        makes_dataset=told is not None and told.makes_dataset, left_out=left_out,
    )  # fmt: skip
    return checked, []


def _examine(
    folder: Path, config: ProgramConfig, settings: Mapping[str, Any] | None
) -> tuple[Examined | None, list[Fault]]:
    with tempfile.TemporaryDirectory() as place:
        try:
            with ProgramProcess(folder, config, log=Path(place, "log")) as process:
                told, _ = process.learn(Examined, "examine")
                faults = [changed(one, file=config.sources[one.file]) for one in told.faults]
                if not faults and settings is not None:
                    process.ask("make_params", settings=dict(settings), what="make the parameters")
        except ProgramError as error:
            return None, [Fault(file=config.python, message=f"{error.what}: {error.evidence}"[:2000])]
    return told, faults


def _compile(folder: Path, config: ProgramConfig, toolkit: Toolkit) -> tuple[list[Fault], tuple[str, ...]]:
    """What compilers complain about; and what none of those that are here could compile."""
    target = STANDIN if toolkit.nvcc is None else NOMINAL
    if target == STANDIN and find_kernel_faults(folder, config, toolkit):
        return [], ("the C functions, because they launch kernels and there is no nvcc here",)
    with tempfile.TemporaryDirectory() as place:
        return build_library(folder, config, target, part=Path(place, "library.so"), toolkit=toolkit), ()
