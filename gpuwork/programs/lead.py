"""Leads a run from beginning to end: scheduler, workers where they are on this machine, rounds, result."""

from __future__ import annotations

import os
import subprocess
import time
import traceback
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from gpuprov.shapes.base import changed
from gpuprov.shapes.error import Error
from gpuprov.shapes.program_answers import Described, Opened
from gpuprov.shapes.program_runs import ProgramResult, ProgramWorker, Progress
from gpuprov.shapes.programs import ProgramName
from gpuwork.errors import BatchError, WorkError
from gpuwork.program import program_argv
from gpuwork.programs.certificate import read_security
from gpuwork.programs.drive import Leader
from gpuwork.programs.meet import settle_dask, wait_for_meeting
from gpuwork.programs.members import Members, WorkersLost
from gpuwork.programs.process import ProgramProcess
from gpuwork.programs.seat import INITIALISE_S
from gpuwork.programs.store import in_use
from gpuwork.where import find_where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from distributed import Client

    from gpuprov.shapes.program_rounds import Equipment
    from gpuwork.programs.drive import RunOutcome
    from gpuwork.programs.run_folder import RunFolder

SCHEDULER_S: Final = 60.0
TOGETHER_S: Final = 60.0  # so long the first workers wait for the others
_END_S: Final = 10.0
_LOOK_S: Final = 0.1
_MOST_SAID: Final = 2000


def lead(run: RunFolder, *, gpus: Sequence[str | None], tell: Callable[[Progress], None]) -> ProgramResult:
    """Lead a run, keep how it ended, and give its result.

    Args:
        gpus: For each worker that is started here, its `CUDA_VISIBLE_DEVICES`; None for what this process has.
        tell: Is told how far it is.

    Raises:
        WorkError: It failed; the folder says why.
    """
    try:
        result = _lead(run, gpus, tell)
    except WorkError as error:
        run.end(Error(error=error.parts))
        raise
    except Exception as error:
        failed = BatchError(
            f"the process that leads the run failed: {type(error).__name__}",
            evidence=traceback.format_exc()[-_MOST_SAID:],
            fix=f"ls -l {run.path}; tail {run.log('scheduler')}",
        )
        run.end(Error(error=failed.parts))
        raise failed from error
    run.end(result)
    return result


def _lead(run: RunFolder, gpus: Sequence[str | None], tell: Callable[[Progress], None]) -> ProgramResult:
    settle_dask()
    program = run.registered
    config = program.read_config()
    with ExitStack() as stack:
        stack.enter_context(in_use(program))
        scheduler = stack.enter_context(_process(run, "scheduler", "scheduler"))
        meeting = wait_for_meeting(run, limit_s=SCHEDULER_S)
        assert meeting is not None  # noqa: S101  (the run has not ended)
        here = [
            stack.enter_context(_process(run, f"worker-{number}", "worker", "--number", str(number), gpu=gpu))
            for number, gpu in enumerate(gpus)
        ]
        client = stack.enter_context(_client(run, meeting.address))
        process = stack.enter_context(ProgramProcess(program.code, config, log=run.log("program")))
        dataset = {"dataset": str(run.dataset), "is_table": run.record.is_table}
        opened, _ = process.learn(Opened, "open", run.params, limit_s=INITIALISE_S, what="open its dataset", **dataset)

        def lives() -> None:
            if scheduler.poll() is not None:
                raise WorkersLost(
                    "the scheduler ended", evidence=f"status {scheduler.returncode}", fix=f"tail {run.log('scheduler')}"
                )

        members = Members(client, lives)
        places = _gather(members, min(run.record.workers, opened.rows), run, lives, here)
        begun = Progress(workers=len(places), rows=opened.rows, iterations=0)
        tell(begun)
        driver = Leader(members, process, tell=lambda iterations: tell(changed(begun, iterations=iterations)))
        driver.build(places)
        driver.divide(opened.rows, {address: place.rate for address, place in places.items()})
        outcome = driver.iterate()
        told, _ = process.learn(Described, "describe", outcome.state, outcome.result, what="describe its result")
        with suppress(OSError):
            members.close(places)
        return _result(run, outcome, places, begun.rows, told)


def _gather(
    members: Members, wanted: int, run: RunFolder, lives: Callable[[], None], here: Sequence[subprocess.Popen[bytes]]
) -> dict[str, Equipment]:
    """The workers, in the order of their numbers, once all are there, or some were for long enough."""
    until, first = time.monotonic() + INITIALISE_S, None
    while True:
        connected = members.connected()
        now = time.monotonic()
        first = first or (now if connected else None)
        ended = [process for process in here if process.poll() is not None]
        everybody = wanted - len(ended) if run.record.local else wanted
        if connected and (len(connected) >= everybody or (first is not None and now >= first + TOGETHER_S)):
            places = members.places(connected)
            return dict([*places.items()][:wanted])
        lives()
        if now >= until or (run.record.local and len(ended) == len(here)):
            counted = f"within {INITIALISE_S:g} s"
            if run.record.local:
                counted = f"{len(ended)} of {len(here)} processes have ended"
            raise WorkersLost("no worker connected", evidence=counted, fix=f"tail {run.log('worker-0')}")
        time.sleep(_LOOK_S)


@contextmanager
def _process(
    run: RunFolder, name: str, verb: str, *arguments: str, gpu: str | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the run, which ends with the block, or when this process does."""
    env = {**os.environ, **({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})}
    argv = program_argv("gpuwork.programs.part", verb, str(run.path), *arguments)
    with run.log(name).open("ab") as log:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log, env=env)  # noqa: S603
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


@contextmanager
def _client(run: RunFolder, address: str) -> Iterator[Client]:
    from distributed import Client

    try:
        client = Client(
            address, security=read_security(run.path), direct_to_workers=True, timeout=_END_S, set_as_default=False
        )
    except OSError as error:
        raise WorkersLost(
            "the scheduler does not answer", evidence=str(error)[:500], fix=f"tail {run.log('scheduler')}"
        ) from error
    try:
        yield client
    finally:
        with suppress(Exception):
            client.shutdown()
        with suppress(Exception):
            client.close(timeout=_END_S)


def _result(
    run: RunFolder, outcome: RunOutcome, places: dict[str, Equipment], rows: int, told: Described
) -> ProgramResult:
    program = run.registered.record
    workers = [
        ProgramWorker(
            number=number, node=place.node, gpu=place.gpu, name=place.name, built_for=place.target,
            rows=sum(part.stop - part.start for part, holder in outcome.holders.items() if holder == address),
        )
        for number, (address, place) in enumerate(places.items())
    ]  # fmt: skip
    return ProgramResult(
        program=ProgramName(hash=program.hash, name=program.name, version=program.program_version),
        iterations=outcome.iterations,
        seconds=round(outcome.seconds, 6),
        rows=rows,
        moved=outcome.moved,
        simulated=find_where().simulated or any(place.gpu is None for place in places.values()),
        workers=tuple(workers),
        result=told.result,
        chart=told.chart,
    )
