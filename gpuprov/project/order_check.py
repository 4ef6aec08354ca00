"""Everything that is wrong with a job and its project, found on this host before anything is copied.

The rules are those of `gpuwork.jobs`, which judges the copy in a node again: it is run here as a program, since gpuprov
does not import what runs in nodes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, cast

from gpuprov.assets import get_asset
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.excerpt import few_lines, first_lines
from gpuprov.core.execution import run
from gpuprov.shapes.base import changed, encode, parse_json, read
from gpuprov.shapes.error import Error
from gpuprov.shapes.jobs import JobChecked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpuprov.shapes.faults import Fault
    from gpuprov.shapes.job_order import JobOrder

CHECK_S: Final = 300.0  # a project on a slow disk
NOTHING: Final = "nothing was submitted"
_SHOWN: Final = 20
_TYPED: Final = {
    "after": "--after",
    "at_most": "--at-most",
    "command": "COMMAND",
    "count": "--count",
    "function": "FUNCTION",
    "gpu_type": "--gpus",
    "gpus": "--gpus",
    "memory_bytes": "--memory",
    "name": "--name",
    "notify": "--notify",
    "partition": "--partition",
    "qos": "--qos",
    "project": "--project",
    "reps": "--reps",
    "retries": "--retries",
    "shards": "--shards",
    "time_limit_s": "--time",
}


def judge_order(order: JobOrder, project: Path | None, *, python: str = sys.executable) -> tuple[str, ...]:
    """The files and links of the project, relative to it.

    Args:
        order: What is to be run.
        project: The folder; None for a command that needs none.

    Raises:
        UsageError: With every fault.
        HostNotReady: The program does not run here.
        TimedOut: The project could not be looked through in time.
    """
    checked = check_order(order, project, python=python)
    if checked.faults:
        raise refuse_faults(checked.faults, fix=_fix(checked.faults))
    return checked.files


def check_order(order: JobOrder, project: Path | None, *, python: str = sys.executable) -> JobChecked:
    """The files of the project, and everything that is wrong with the order and with it.

    Raises:
        UsageError: The project cannot be read.
        HostNotReady: The program does not run here.
        TimedOut: The project could not be looked through in time.
    """
    asked = changed(order, project=None if project is None else str(project))
    return read(JobChecked, ask_here(("-m", "gpuwork.jobs", "check"), stdin=encode(asked).decode(), python=python))


def ask_here(
    program: Sequence[str],
    *,
    stdin: str = "",
    python: str = sys.executable,
    limit_s: float = CHECK_S,
    environment: Mapping[str, str] | None = None,
) -> Mapping[str, Any]:
    """The document that a program of what runs in nodes prints on this host.

    Args:
        program: What follows the name of the interpreter; with `-S` it starts sooner, and finds no packages.
        stdin: What it is told.
        limit_s: How long it may take.
        environment: What it finds there beside this process's own.

    Raises:
        UsageError: It complains.
        HostNotReady: It does not run here, or this machine lacks what it needs.
        TimedOut: The project could not be looked through in time.
    """
    done = run(
        [python, *program],
        timeout_s=limit_s,
        cwd=get_asset("gpuwork").parent,
        environment={"PYTHONSAFEPATH": "", **(environment or {})},  # else it is not found there
        stdin=stdin,
        check=False,
    )
    try:
        told = cast("Mapping[str, Any]", parse_json(done.stdout))
    except ValueError as error:
        raise HostNotReady(
            f"the job cannot be checked on this machine; {NOTHING}",
            evidence=few_lines(done.stderr) or f"exit status {done.exit_code}",
            fix=f"install gpuprov again, for {python}",
        ) from error
    if "error" in told:
        parts = read(Error, told).error
        if parts.exit_code == HostNotReady.exit_code:
            raise HostNotReady(parts.what, evidence=parts.evidence, fix=parts.fix)
        raise UsageError(f"{parts.what}; {NOTHING}", evidence=parts.evidence, fix=parts.fix)
    return told


def refuse_faults(faults: Sequence[Fault], *, fix: str) -> UsageError:
    """All faults as one error."""
    lines = [str(_as_typed(fault)) for fault in faults]
    what = "a fault" if len(faults) == 1 else f"{len(faults)} faults"
    where = "project" if len(_of_project(faults)) == len(faults) else "job"
    return UsageError(f"{what} in the {where}; {NOTHING}", evidence=first_lines(lines, _SHOWN), fix=fix)


def _fix(faults: Sequence[Fault]) -> str:
    if _of_project(faults):
        return "correct the project, or choose another folder with --project, or none with --no-project"
    if all(fault.where == "project" for fault in faults):
        return "cd into the project, name its folder with --project, or use none with --no-project"
    return "gpuprov submit --help"


def _of_project(faults: Sequence[Fault]) -> list[Fault]:
    return [fault for fault in faults if fault.file != "order"]


def _as_typed(fault: Fault) -> Fault:
    """A fault, named as the user typed what it is about."""
    if fault.file != "order":
        return fault
    argument = fault.where.removeprefix("arguments").removeprefix(".")
    key = fault.where.partition("[")[0]
    typed = f"-a {argument}".strip() if key.startswith("arguments") else _TYPED.get(key, "job")
    return changed(fault, file=typed, line=None, where="")
