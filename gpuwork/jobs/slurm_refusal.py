"""What Slurm refuses for good, and what the cluster would take instead: in its own words."""

from __future__ import annotations

import os
import pwd
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from gpuwork.errors import Refused, SlurmError
from gpuwork.jobs.command import ask, without_command

if TYPE_CHECKING:
    from gpuprov.shapes.job_order import JobOrder

_LOOK_S: Final = 10.0
_SHOWN: Final = 300
_SAID: Final = re.compile(r"Batch job submission failed: ([^\n]{1,300})")
_OWN: Final = ("sacctmgr", "-nP", "show", "assoc", "format=qos")
_LIMITS: Final = ("sacctmgr", "-nP", "show", "qos", "format=name,maxwall,maxtrespu")
_TIMES: Final = ("sinfo", "-h", "-o", "%R|%l")
_NODES: Final = ("sinfo", "-h", "-o", "%N|%c CPUs|%m MB|%G")


class _Kind(NamedTuple):
    """One thing that Slurm refuses.

    Attributes:
        begins: Slurm's words for it.
        option: What to give otherwise.
        look: The command that prints what the cluster has of it.
    """

    begins: str
    option: str
    look: tuple[str, ...]


_KINDS: Final = (
    _Kind("Invalid qos specification", "--qos NAME, one of these, or omit it", _OWN),
    _Kind("Job violates accounting/QOS policy", "--gpus, --time or --qos within these limits", _LIMITS),
    _Kind("Requested time limit is invalid", "--time or --partition within these limits", _TIMES),
    _Kind("Invalid partition name specified", "--partition NAME, one of these, or omit it", _TIMES),
    _Kind("Requested node configuration is not available", "--gpus and --memory that a node has", _NODES),
    _Kind("Invalid generic resource (gres) specification", "--gpus and --shards that a node has", _NODES),
    _Kind("Memory required by task is not available", "--memory that a node has", _NODES),
)


def refused_for_good(error: SlurmError, order: JobOrder) -> Refused | None:
    """What sbatch said, as a refusal that names what there is; None where Slurm may take the same later."""
    said = _SAID.search(error.evidence)
    kind = next((one for one in _KINDS if said and said[1].startswith(one.begins)), None)
    if kind is None:
        return None
    evidence = without_command(error.evidence)
    if kind.look == _TIMES and order.time_limit_s is not None and order.retries:
        evidence += "\nit is asked for the time of all tries (--time, --retries)"
    return Refused("Slurm refuses these jobs; nothing was submitted", evidence=evidence, fix=_render_fix(kind))


def _render_fix(kind: _Kind) -> str:
    """The option, and what the cluster has; a cluster that does not answer in time has its command named."""
    look = [*kind.look, f"user={_account()}"] if kind.look == _OWN else [*kind.look]
    try:
        lines = ask(look, limit_s=_LOOK_S).splitlines()
    except SlurmError:
        return f"{kind.option}: {' '.join(kind.look[:1] if kind.look[0] == 'sinfo' else kind.look[:4])}"
    if kind.look == _OWN:
        lines = [name for line in lines for name in line.split(",")]
    there = dict.fromkeys(" ".join(filter(None, line.split("|"))) for line in lines)
    return f"{kind.option}: {', '.join(filter(None, there))[:_SHOWN]}"


def _account() -> str:
    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())
