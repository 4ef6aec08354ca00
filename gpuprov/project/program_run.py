"""A CUDA program run on this machine, by `gpuwork.programs` in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from gpuprov.assets import get_asset
from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, ProgramFailed, UsageError
from gpuprov.core.excerpt import few_lines
from gpuprov.core.execution import run
from gpuprov.project.local_packages import local_environment
from gpuprov.shapes.base import parse_json, read
from gpuprov.shapes.error import Error
from gpuprov.shapes.program_runs import ProgramResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.gpu.models import HostGpus
    from gpuprov.spec.program_order import ProgramOrder

LONGEST_S: Final = 14 * 24 * 3600.0
_KINDS: Final[dict[int, type[GpuprovError]]] = {1: ProgramFailed, 2: UsageError, 3: HostNotReady}


def run_on_this_machine(order: ProgramOrder, gpus: HostGpus | None, *, python: str) -> ProgramResult:
    """The result.

    Args:
        order: What is asked for.
        gpus: Of this machine, if known.
        python: The interpreter.

    Raises:
        UsageError: The program or the data are wrong.
        HostNotReady: This machine lacks what is needed.
        ProgramFailed: And why.
        EngineError: Its workers were lost.
    """
    argv = [python, "-m", "gpuwork.programs", "run", str(order.program), *order.choice]
    argv += [] if order.data is None else ["--data", str(order.data)]
    argv += [] if order.workers is None else ["--workers", str(order.workers)]
    environment = {"PYTHONSAFEPATH": "", **local_environment(gpus)}  # else it is not found there
    done = run(argv, timeout_s=LONGEST_S, cwd=get_asset("gpuwork").parent, environment=environment, check=False)
    try:
        told = cast("Mapping[str, object]", parse_json(done.stdout))
        if "error" not in told:
            return read(ProgramResult, told)
        parts = read(Error, told).error
    except ValueError as error:
        raise HostNotReady(
            "programs cannot be run on this machine",
            evidence=few_lines(done.stderr) or f"exit status {done.exit_code}",
            fix=f"install gpuprov again, for {python}",
        ) from error
    raise _KINDS.get(parts.exit_code, EngineError)(parts.what, evidence=parts.evidence, fix=parts.fix)
