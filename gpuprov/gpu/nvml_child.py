"""Ask NVML in a process of its own: where the driver hangs, the call that asked never returns and cannot be killed."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprov.core.errors import GpuprovError, TimedOut
from gpuprov.core.execution import run
from gpuprov.gpu.models import Gpu, MigInstance
from gpuprov.gpu.nvml import LIBRARY_NOT_FOUND, TIMEOUT, UNKNOWN, NvmlFailed, NvmlReading, read_nvml

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.core.execution import Completed

# For eight GPUs that the driver has to start first, as it does for every program without persistence mode.
ANSWER_S: Final = 30.0
_START: Final = "import sys; sys.path[:0] = sys.argv[1:]; from gpuprov.gpu.nvml_child import main; main()"
_LINES: Final = 3


def read_nvml_in_time(
    *, timeout_s: float = ANSWER_S, execute: Callable[..., Completed] = run, python: str = sys.executable
) -> NvmlReading:
    """Ask NVML for every GPU, for so long at most.

    Args:
        timeout_s: After so many seconds it has failed with NVML's code for that.
        execute: Runs the child.
        python: Runs in it, with gpuprov and pynvml and no other package: it starts in a tenth of the time.

    Raises:
        NvmlFailed: A call failed that works on every healthy GPU, none was answered in time, or the library crashed.
    """
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise NvmlFailed(code=LIBRARY_NOT_FOUND, call="import pynvml", text="No module named 'pynvml'")
    places = [str(Path(__file__).parents[2]), str(Path(found.origin).parent)]
    try:
        answer = execute([python, "-I", "-S", "-c", _START, *places], timeout_s=timeout_s, check=False)
    except TimedOut as error:
        raise NvmlFailed(code=TIMEOUT, call="NVML", text=f"no response within {timeout_s:g} s") from error
    except GpuprovError as error:
        raise NvmlFailed(code=UNKNOWN, call="NVML", text=error.evidence) from error
    try:
        return _parse(json.loads(answer.stdout))
    except (ValueError, KeyError, TypeError) as error:
        said = "; ".join(answer.stderr.strip().splitlines()[-_LINES:]) or "no output"
        text = f"the query ended with status {answer.exit_code}: {said}"
        raise NvmlFailed(code=UNKNOWN, call="NVML", text=text) from error


def main() -> None:
    """In the child: ask, and print the answer as JSON."""
    try:
        answer: dict[str, Any] = asdict(read_nvml())
    except NvmlFailed as failure:
        answer = {"failed": {"code": failure.code, "call": failure.call, "text": failure.text}}
    sys.stdout.write(json.dumps(answer))


def _parse(answer: dict[str, Any]) -> NvmlReading:
    if "failed" in answer:
        raise NvmlFailed(**answer["failed"])
    return NvmlReading(**{**answer, "gpus": tuple(map(_gpu, answer["gpus"]))})


def _gpu(told: dict[str, Any]) -> Gpu:
    capability = told["compute_capability"]
    parts = tuple(MigInstance(**part) for part in told["mig"])
    return Gpu(**{**told, "compute_capability": tuple(capability) if capability else None, "mig": parts})
