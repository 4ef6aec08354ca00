"""What Slurm refuses for good, and what the cluster would take instead: in its own words."""

from __future__ import annotations

import os
import pwd
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import UNSET

from gpuwork.errors import Refused, SlurmError
from gpuwork.jobs.command import ask, without_command

if TYPE_CHECKING:
    from gpuprov.shapes.job_order import JobOrder

_ACCOUNTS: Final = Path("/etc/passwd")
_LOOK_S: Final = 10.0
_SHOWN: Final = 300
_SAID: Final = re.compile(r"Batch job submission failed: ([^\n]{1,300})")
_OWN: Final = ("sacctmgr", "-nP", "show", "assoc", "format=qos")
_LIMITS_OF: Final = ("name", "maxwall", "maxtrespu")
_LIMITS: Final = ("sacctmgr", "-nP", "show", "qos", f"format={','.join(_LIMITS_OF)}")
_TIMES: Final = ("sinfo", "-h", "-o", "%P|%l")
_NODES: Final = ("sinfo", "-h", "-o", "%N|%c CPUs|%m MB|%G")
_NO_ACCOUNT: Final = "Invalid account or account/partition combination"
_ADD_ACCOUNT: Final = "sacctmgr -i add account people description=people organization=people"
_ADD_PERSON: Final = "gpuprov person add {name}, on the cluster's host, by its administrator"
_ADD_USER: Final = "sacctmgr -i add user {name} account=people"
_GPUS: Final = re.compile(r"gres/gpu=([0-9]{1,6})")
_TIME: Final = re.compile(r"(?:([0-9]{1,5})-)?(?:([0-9]{1,2}):)?([0-9]{1,2}):([0-9]{2})")
_DEFAULT: Final = "*"  # follows the name of the partition of jobs that name none
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3600, 60


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
    _Kind("Requested partition configuration not available", "--time or --partition within these limits", _TIMES),
    _Kind("Invalid partition name specified", "--partition NAME, one of these, or omit it", _TIMES),
    _Kind("Requested node configuration is not available", "--gpus and --memory that a node has", _NODES),
    _Kind("Invalid generic resource (gres) specification", "--gpus and --shards that a node has", _NODES),
    _Kind("Memory required by task is not available", "--memory that a node has", _NODES),
)


def refused_for_good(error: SlurmError, order: JobOrder) -> Refused | None:
    """What sbatch said, as a refusal that names what there is; None where Slurm may take the same later."""
    said = _SAID.search(error.evidence)
    if said and said[1].startswith(_NO_ACCOUNT):
        return _without_account(error)
    kind = next((one for one in _KINDS if said and said[1].startswith(one.begins)), None)
    if kind is None:
        return None
    evidence = without_command(error.evidence)
    if kind.look in (_TIMES, _LIMITS) and order.time_limit_s is not None and order.retries:
        evidence += "\nit is asked for the time of all tries (--time, --retries)"
    return Refused("Slurm refuses these jobs; nothing was submitted", evidence=evidence, fix=_render_fix(kind, order))


def _without_account(error: SlurmError) -> Refused:
    """Of somebody whom the accounting does not know; gpuprov adds somebody of a directory, not the node's accounts."""
    name = _account()
    add = _ADD_PERSON if not name.isdecimal() and _is_of_directory(name) else f"{_ADD_ACCOUNT}; {_ADD_USER}"
    return Refused(
        f"Slurm's accounting does not know {name}, and takes no jobs; nothing was submitted",
        evidence=without_command(error.evidence),
        fix=add.format(name=name),
    )


def _render_fix(kind: _Kind, order: JobOrder) -> str:
    """The option, and what the cluster has; a cluster that does not answer in time has its command named."""
    look = [*kind.look, f"user={_account()}"] if kind.look == _OWN else [*kind.look]
    try:
        lines = ask(look, limit_s=_LOOK_S).splitlines()
    except SlurmError:
        return f"{kind.option}: {' '.join(kind.look[:1] if kind.look[0] == 'sinfo' else kind.look[:4])}"
    if kind.look == _OWN:
        lines = [name for line in lines for name in line.split(",")]
    if within := _within(lines, order) if kind.look == _LIMITS else _in_time(lines, order, kind):
        return within
    there = dict.fromkeys(" ".join(filter(None, line.replace(f"{_DEFAULT}|", "|").split("|"))) for line in lines)
    return f"{kind.option}: {', '.join(filter(None, there))[:_SHOWN]}"


def _within(limits: list[str], order: JobOrder) -> str:
    """The options that the job's QOS would take, from `name|time|limits of a person`; empty where it is not that."""
    if order.qos is UNSET:
        return ""
    rows = (line.split("|") for line in limits)
    found = next((row for row in rows if len(row) == len(_LIMITS_OF) and row[0].lower() == order.qos.lower()), None)
    if found is None:
        return ""
    fixes = []
    most_s, gpus = _parse_time_s(found[1]), _GPUS.search(found[2])
    if most_s and order.time_limit_s is not None and order.time_limit_s * (order.retries + 1) > most_s:
        fixes.append(_render_time(most_s, order))
    if gpus and order.gpus > int(gpus[1]):
        fixes.append(f"--gpus {gpus[1]}")
    return f"{' '.join(fixes)}, the most that the QOS {found[0]} allows; or another --qos" if fixes else ""


def _in_time(limits: list[str], order: JobOrder, kind: _Kind) -> str:
    """The time that the job's partition would take, from `name|time` of each; empty where it is not that.

    A job without a time has that of its QOS, which may be longer.
    """
    if kind.look != _TIMES or (order.time_limit_s is None and order.qos is UNSET):
        return ""
    times = dict(line.split("|") for line in limits if line.count("|") == 1)
    default = next((name for name in times if name.endswith(_DEFAULT)), "")
    name = default if order.partition is UNSET else order.partition
    most_s = _parse_time_s(times.get(name, times.get(f"{name}{_DEFAULT}", "")))
    if not most_s or (order.time_limit_s is not None and order.time_limit_s * (order.retries + 1) <= most_s):
        return ""
    most = f"the most that partition {name.removesuffix(_DEFAULT)} allows"
    return f"{_render_time(most_s, order)}, {most}; or another --partition"


def _parse_time_s(text: str) -> int | None:
    """The seconds of a limit as Slurm prints it, such as `3-00:00:00`; None where there is no limit."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * _DAY_S + hours * _HOUR_S + minutes * _MINUTE_S + seconds


def _render_time(most_s: int, order: JobOrder) -> str:
    """The option that asks for no more than this, for all tries together."""
    each_s = max(1, most_s // (order.retries + 1))
    if each_s % _HOUR_S == 0:
        return f"--time {each_s // _HOUR_S}h"
    return f"--time {each_s // _MINUTE_S}m" if each_s % _MINUTE_S == 0 else f"--time {each_s}s"


def _account() -> str:
    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())


def _is_of_directory(name: str) -> bool:
    """Whether the node has the account from a directory, and not in its own file."""
    with suppress(OSError):
        return not any(line.startswith(f"{name}:") for line in _ACCOUNTS.read_text(errors="replace").splitlines())
    return False
