"""How long jobs of Slurm had GPUs, as its accounting knows it: root in the controller's node can say anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import expand_names
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.roles.usage import Use, Uses

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from gpuprov.drivers.base import Driver

_ASK_S: Final = 60.0
_MOST_JOBS: Final = 200_000  # and no driver takes in more than 16 MB
_FIELDS: Final = ("JobIDRaw", "JobID", "User", "Account", "State", "Submit", "ElapsedRaw", "AllocTRES", "NodeList")
# Each try of each job, cut to the window by sacct itself, which knows for how long a job was suspended
_SCRIPT: Final = f"""\
export TZ=UTC SLURM_TIME_FORMAT=%s
sdiag 2>/dev/null | sed -n 's/^DBD Agent queue size: */queue /p'
squeue --noheader --all --states=all --format='live %A'
echo jobs
exec sacct --allusers --allocations --duplicates --truncate --parsable2 --noheader \\
    --starttime="$1" --endtime="$2" --format={",".join(_FIELDS)}
"""
_JOB = r"[0-9]{1,10}[0-9_+\[\]%,.-]{0,200}"
_NAME = r"[A-Za-z0-9_.@$-]{0,64}"
_ROW: Final = re.compile(
    rf"([0-9]{{1,10}})\|({_JOB})\|({_NAME})\|({_NAME})\|([A-Z_]{{1,20}})(?: by [0-9]+)?\|"
    r"([0-9]{1,12})\|([0-9]{1,10})\|([A-Za-z0-9=,/._:-]{0,2000})\|([A-Za-z0-9\[\],. -]{0,20000})",
    re.ASCII,
)
_GPUS: Final = re.compile(r"gres/gpu(?::([A-Za-z0-9._-]{1,64}))?=([0-9]{1,6})", re.ASCII)
_LIVE: Final = re.compile(r"live ([0-9]{1,10})", re.ASCII)
_QUEUE: Final = re.compile(r"queue ([0-9]{1,10})", re.ASCII)
_GOING_ON: Final = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING"})
_UNTYPED: Final = "gpu"
_NOWHERE: Final = "None assigned"


def ask_uses(driver: Driver, controller: str, *, since: datetime, until: datetime) -> Uses:
    """What the accounting of a cluster knows of its jobs' GPUs within a window.

    Args:
        driver: The engine.
        controller: The node that runs slurmctld.
        since: When the window begins, in UTC.
        until: When it ends, no later than now.

    Raises:
        EngineError: sacct failed, or said something that it does not say.
        UsageError: There are too many jobs.
        TimedOut: It did not answer.
    """
    window = [moment.strftime("%Y-%m-%dT%H:%M:%S") for moment in (since, until)]
    argv = ["sh", "-c", _SCRIPT, "sh", *window]
    result = driver.run(controller, argv, timeout_s=scaled_limit_s(_ASK_S))
    if result.exit_code:
        raise EngineError(
            "Slurm's accounting does not answer",
            evidence=f"sacct on {controller}: {excerpt(result.stderr.strip() or f'exit status {result.exit_code}')}",
            fix=f"gpuprov exec {controller} -- sacctmgr show cluster",
        )
    if result.stdout.count("\n") > _MOST_JOBS:
        raise UsageError(
            "there are too many jobs to count at once",
            evidence=f"{controller} has more than {_MOST_JOBS} jobs from {window[0]} to {window[1]}",
            fix="ask for less: gpuprov usage --since DATE --until DATE",
        )
    try:
        return parse_uses(result.stdout, controller)
    except ValueError as error:
        raise EngineError(
            "Slurm's accounting gave an unexpected answer",
            evidence=f"sacct on {controller}: {excerpt(str(error))}",
            fix=f"gpuprov exec {controller} -- sacct --allusers",
        ) from error


def parse_uses(text: str, controller: str = "") -> Uses:
    """Read what the script prints; raises ValueError for a line that it does not print."""
    head, _, body = text.partition("jobs\n")
    queued, live = 0, set()
    for line in head.splitlines():
        if found := _LIVE.fullmatch(line):
            live.add(found[1])
        elif found := _QUEUE.fullmatch(line):
            queued = int(found[1])
        else:
            raise ValueError(line)
    lost: list[str] = []
    uses = [use for line in body.splitlines() if (use := _read(line, live, lost))]
    notes = []
    if queued:
        notes.append(f"{queued} messages wait for slurmdbd: jobs of the last minutes may be missing")
    if lost:
        notes.append(
            f"{len(lost)} jobs have no end on record and are left out, such as {lost[0]}; "
            f"to end them: gpuprov exec {controller} -- sacctmgr show runawayjobs"
        )
    return Uses(uses=tuple(uses), notes=tuple(notes))


def _read(line: str, live: Collection[str], lost: list[str]) -> Use | None:
    """A job that had GPUs; None for one without, and for one that has not begun. `lost` gets those without an end."""
    found = _ROW.fullmatch(line)
    if found is None:
        raise ValueError(line)
    raw, job, person, account, state, submitted, seconds, tres, nodes = found.groups()
    gpus = read_gpus(tres)
    if not gpus or nodes in ("", _NOWHERE):
        return None
    if state in _GOING_ON and raw not in live:
        lost.append(job)
        return None
    try:
        names = expand_names(nodes)
    except UsageError as error:
        raise ValueError(line) from error
    return Use(
        job=job,
        person=person,
        account=account,
        nodes=names,
        gpus=gpus,
        seconds=int(seconds),
        submitted=submitted,
        running=state in _GOING_ON,
    )


def read_gpus(tres: str) -> dict[str, int]:
    """How many GPUs of each type are in a list such as `cpu=1,gres/gpu:h100=2,gres/gpu=2`; those of none are `gpu`."""
    counts = {match[1] or _UNTYPED: int(match[2]) for part in tres.split(",") if (match := _GPUS.fullmatch(part))}
    whole = counts.pop(_UNTYPED, 0)
    rest = whole - sum(counts.values())
    return {**{name: count for name, count in counts.items() if count}, **({_UNTYPED: rest} if rest > 0 else {})}
