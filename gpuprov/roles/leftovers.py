"""What jobs that have ended left on a node: processes that have a job's marks and no job any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gpuprov.assets import get_asset
from gpuprov.core.excerpt import excerpt, few
from gpuprov.shapes.base import parse_json, read
from gpuprov.shapes.jobs import LeftProcess, LeftProcesses
from gpuprov.verify.finding import failed, passed, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.verify.models import Finding

# The processes before and after the jobs: one that belongs to a job just ended, or just begun, is not in both.
_LOOK: Final = r"""
first=$(python3 -I -c "$1" "$2") && running=$(eval "$3") && second=$(python3 -I -c "$1" "$2") || exit
printf '%s\n' "$first"; echo $running; printf '%s\n' "$second"
"""
_TOLD: Final = 3


def ask_left(variable: str, *, running: str = "true", timeout_s: float) -> dict[str, object]:
    """A question of `verify`: processes of jobs, told by this variable, and the words that `running` prints."""
    program = (get_asset("gpuwork") / "jobs" / "leftovers.py").read_text(encoding="utf-8")
    return {"argv": ["sh", "-c", _LOOK, "sh", program, variable, running], "timeout_s": timeout_s}


def judge_left(asked: Mapping[str, Any]) -> Finding:
    """Nothing is left of any job."""
    if asked["timed_out"]:
        return unknown(f"no answer within {asked['seconds']:.0f} s")
    if asked["exit_code"]:
        return unknown(excerpt(f"the node's processes cannot be listed: {asked['stderr']}"))
    left = parse_left(asked["stdout"])
    if not left:
        return passed("none")
    told = [f"process {process.pid} of job {process.of} ({process.command})" for process in left]
    return failed(excerpt(f"of jobs that have ended: {few(told, _TOLD)}", limit=600))


def parse_left(said: str) -> tuple[LeftProcess, ...]:
    """Those that were there both times, of jobs that are not running; raises ValueError for anything else."""
    first, running, second = said.rstrip("\n").split("\n")
    before, after = _read(first), _read(second)
    jobs = set(running.split())
    return tuple(one for one in before if one in after and not one.owned and one.of not in jobs)


def _read(line: str) -> tuple[LeftProcess, ...]:
    return read(LeftProcesses, {"processes": parse_json(line)}).processes
