"""A worker's place in a run: it holds slices of the dataset and works on them, in a process of the program's own."""

from __future__ import annotations

import os
import platform
import time
from typing import TYPE_CHECKING, Any, Final

from gpuprov.shapes.program_rounds import Equipment, RowSlice, SliceResult
from gpuwork.hardware import NoCuda, ask_cuda_driver
from gpuwork.programs.build import ensure_library, target_of
from gpuwork.programs.process import ProgramKilled, ProgramProcess
from gpuwork.programs.toolkit import find_toolkit

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.program_rounds import RowSlice
    from gpuwork.programs.run_folder import RunFolder
    from gpuwork.programs.wire import Message

INITIALISE_S: Final = 300.0
ITERATE_S: Final = 600.0
CLEAN_UP_S: Final = 60.0
_BLOCK_WITHOUT_GPU: Final = 32
_RATE_WITHOUT_GPU: Final = 1.0


def look_around() -> Equipment:
    """What this worker has: the first GPU that it can see, or none."""
    try:
        gpus = ask_cuda_driver()
    except NoCuda:
        gpus = ()
    if not gpus:
        return Equipment(
            node=platform.node(), gpu=None, name=None, target=target_of(None), block_size=_BLOCK_WITHOUT_GPU,
            rate=_RATE_WITHOUT_GPU,
        )  # fmt: skip
    gpu = gpus[0]
    return Equipment(
        node=platform.node(),
        gpu=gpu.uuid,
        name=gpu.name,
        target=target_of((gpu.major, gpu.minor)),
        block_size=gpu.block_size_hint,
        rate=float(max(1, gpu.multiprocessors) * max(1, gpu.clock_khz)),
    )


class Seat:
    """Works on slices of a run."""

    def __init__(self, run: RunFolder, number: int) -> None:
        self._run = run
        self._number = number
        self._program = run.registered
        self._config = self._program.read_config()
        self._process: ProgramProcess | None = None
        self._round = -1
        self._begun = 0.0
        self._results: dict[int, SliceResult] = {}
        self.place = look_around()

    def build(self) -> None:
        """Build the program for this worker's GPU, unless that was done."""
        self._library()

    def _library(self) -> Path:
        code, built = self._program.code, self._program.built
        return ensure_library(code, self._config, self.place.target, built=built, toolkit=find_toolkit())

    def take(self, part: RowSlice) -> None:
        """Hold a slice.

        Raises:
            WorkError: The program failed, or crashed.
        """
        self._again(lambda process: self._take(process, part))

    def release(self, before: int) -> None:
        """Hold the slices with lower numbers than this no longer: the rows were divided anew."""
        if self._process is not None:
            self._again(lambda process: process.ask("release", before=before, limit_s=CLEAN_UP_S, what="free rows"))

    def iterate(self, part: RowSlice, number: int, state: bytes) -> SliceResult:
        """The result of a round over a slice, which is taken first; asked again, it is the same."""
        if number != self._round:
            self._round, self._results = number, {}
        if part.number not in self._results:
            (content,) = self._again(lambda process: self._iterate(process, part, state))[1]
            self._results[part.number] = SliceResult(
                round=number, numbers=(part.number,), content=bytes(content), seconds=(time.monotonic() - self._begun,)
            )
        return self._results[part.number]

    def _iterate(self, process: ProgramProcess, part: RowSlice, state: bytes) -> Message:
        self._take(process, part)
        self._begun = time.monotonic()
        what = f"run an iteration over the rows {part.start} to {part.stop - 1} on {self.place.node}"
        return process.ask("iterate", state, number=part.number, limit_s=ITERATE_S, what=what)

    def merge(self, results: list[bytes]) -> bytes:
        """Results as one."""
        if len(results) == 1:
            return results[0]
        return bytes(self._again(lambda process: process.ask("merge", *results, limit_s=ITERATE_S))[1][0])

    def close(self) -> None:
        """Free what is held."""
        if self._process is not None:
            try:
                self._process.ask("close", limit_s=CLEAN_UP_S)
            finally:
                self._process.end()
                self._process = None

    def _again(self, do: Any) -> Message:  # noqa: ANN401  (a function of a process)
        """Do something in the program's process; once more in a new one if that was killed."""
        try:
            found: Message = do(self._ready())
        except ProgramKilled:
            self.drop()
            found = do(self._ready())
        except BaseException:
            self.drop()
            raise
        return found

    def drop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _ready(self) -> ProgramProcess:
        if self._process is None:
            run = self._run
            library = self._library()  # built by a worker that came later; else it is there
            log = run.log(f"program-{self._number}")
            process = ProgramProcess(self._program.code, self._config, log=log, env=os.environ)
            self._process = process
            process.ask("load", library=str(library), block_size=self.place.block_size, limit_s=INITIALISE_S)
            dataset = {"dataset": str(run.dataset), "is_table": run.record.is_table}
            process.ask("open", run.params, limit_s=INITIALISE_S, what="open its dataset", **dataset)
        return self._process

    def _take(self, process: ProgramProcess, part: RowSlice) -> Message:
        what = f"take the rows {part.start} to {part.stop - 1} on {self.place.node}"
        where = {"number": part.number, "start": part.start, "stop": part.stop}
        return process.ask("take_slice", limit_s=INITIALISE_S, what=what, **where)
