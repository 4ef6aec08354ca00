"""How long jobs of Slurm had GPUs, as its accounting knows it: root in the controller's node can say anything.

slurmctld tells slurmdbd on two connections that a job began and that it ended, and what waited for slurmdbd comes out
of order: a job that ended meanwhile is on record as COMPLETED without an end, for seconds, and sacct counts it up to
now. slurmctld's queue does not tell, as what is being sent has left it. So those jobs that slurmctld still knows to
have ended (for MinJobAge) are looked for in the records, and waited for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError, UsageError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.names import expand_names
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.core.waiting import SystemClock
from gpuprov.roles.slurm.accounting import FIXES, QUEUE, WHY
from gpuprov.roles.slurm.facts import ACCOUNTING_SCRIPT as SCRIPT
from gpuprov.roles.slurm.facts import slurm_path
from gpuprov.roles.slurm.questions import VERIFY_JOB
from gpuprov.roles.usage import Use, Uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from gpuprov.core.waiting import Clock
    from gpuprov.drivers.base import Driver, ExecResult

_ASK_S: Final = 60.0
_LOOKS: Final = 31  # slurmctld tries to reach slurmdbd every ten seconds, and then begins with what began
_BETWEEN_S: Final = 1.0
_MOST_JOBS: Final = 200_000  # and no driver takes in more than 16 MB
_FIELDS: Final = "JobIDRaw,JobID,User,Account,State,Submit,End,ElapsedRaw,AllocTRES,NodeList"
# Each try of each job, cut to the window by sacct itself, which knows for how long a job was suspended
_SCRIPT: Final = f"""\
export TZ=UTC SLURM_TIME_FORMAT=%s
sdiag 2>/dev/null | sed -n 's/^DBD Agent queue size: */queue /p'
squeue --noheader --all --states=all --format='live %A %V %T %S %e'
sacct --user=root --name={VERIFY_JOB} --allocations --duplicates --parsable2 --noheader \\
    --starttime="$1" --endtime="$2" --format=JobIDRaw,Submit 2>/dev/null |
    sed -n 's/^[0-9][0-9]*|[0-9][0-9]*$/verify &/p'
echo jobs
sacct --allusers --allocations --duplicates --truncate --parsable2 --noheader \\
    --starttime="$1" --endtime="$2" --format={_FIELDS} && exit
status=$?
if [ ! -e {slurm_path("slurmdbd")} ]; then  # a backup of the controller
    host=$(sed -n 's/^AccountingStorageHost=//p' /etc/slurm/slurm.conf)
    echo "why elsewhere slurmdbd is on the node with the address $host, and does not answer"
else
    printf 'why %s\\n' "$(sh {SCRIPT} why 2>/dev/null)"
fi
exit $status
"""
_JOB = r"[0-9]{1,10}[0-9_+\[\]%,.-]{0,200}"
_NAME = r"[A-Za-z0-9_.@$-]{0,64}"
_TIME = r"[0-9]{1,12}|N/A|NONE|None|Unknown"
_ROW: Final = re.compile(
    rf"([0-9]{{1,10}})\|({_JOB})\|({_NAME})\|({_NAME})\|([A-Z_]{{1,20}})(?: by [0-9]+)?\|([0-9]{{1,10}})\|({_TIME})\|"
    r"([0-9]{1,10})\|([A-Za-z0-9=,/._:-]{0,2000})\|([A-Za-z0-9\[\],. -]{0,20000})",
    re.ASCII,
)
_GPUS: Final = re.compile(r"gres/gpu(?::([A-Za-z0-9._+-]{1,64}))?=([0-9]{1,6})", re.ASCII)
_VERIFY: Final = re.compile(r"verify ([0-9]{1,10})\|([0-9]{1,10})", re.ASCII)
_LIVE: Final = re.compile(rf"live ([0-9]{{1,10}}) ({_TIME}) ([A-Z_]{{1,20}}) ({_TIME}) ({_TIME})", re.ASCII)
_LOOK: Final = "gpuprov exec {node} -- tail /var/log/slurm/slurmdbd.log"
_GOING_ON: Final = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING"})
_PENDING: Final = "PENDING"
_HAS_NO_END: Final = _GOING_ON | {_PENDING}
_UNTYPED: Final = "gpu"
_BY_VERIFY: Final = "(verify)"  # a name that no account has
_NOWHERE: Final = ("", "None assigned")
_EVER: Final = (0, 10**12)


@dataclass(frozen=True, kw_only=True)
class _Known:
    """A job in slurmctld's memory: when it was submitted, began and ended, in seconds; 0 for what it has not."""

    submitted: int
    state: str
    start: int
    end: int

    def has_ended_in(self, window: tuple[int, int]) -> bool:
        """Whether it ran in a window of time, and runs no more."""
        ended = self.state not in _HAS_NO_END and 0 < self.start < self.end
        return ended and self.end > window[0] and self.start < window[1]


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A try of a job on record, in seconds; its end is no later than that of the window."""

    raw: str
    job: str
    person: str
    account: str
    state: str
    submitted: int
    end: int
    seconds: int
    gpus: Mapping[str, int]
    nodes: str


def ask_uses(driver: Driver, controller: str, *, since: datetime, until: datetime, clock: Clock | None = None) -> Uses:
    """What the accounting of a cluster knows of its jobs' GPUs within a window.

    Args:
        driver: The engine.
        controller: The node that runs slurmctld.
        since: When the window begins, in UTC.
        until: When it ends, no later than now.
        clock: By which the ends of jobs are waited for.

    Raises:
        EngineError: sacct failed, or said something that it does not say.
        UsageError: There are too many jobs.
        TimedOut: It did not answer.
    """
    clock = clock or SystemClock()
    for left in reversed(range(_LOOKS)):
        found = _ask(driver, controller, since, until)
        if not found.late or not left:
            break
        clock.sleep(_BETWEEN_S)
    return found


def _ask(driver: Driver, controller: str, since: datetime, until: datetime) -> Uses:
    window = [moment.strftime("%Y-%m-%dT%H:%M:%S") for moment in (since, until)]
    argv = ["sh", "-c", _SCRIPT, "sh", *window]
    result = driver.run(controller, argv, timeout_s=scaled_limit_s(_ASK_S))
    if result.exit_code:
        raise _away(controller, result)
    if result.stdout.count("\n") > _MOST_JOBS:
        raise UsageError(
            "there are too many jobs to count at once",
            evidence=f"{controller} has more than {_MOST_JOBS} jobs from {window[0]} to {window[1]}",
            fix="ask for less: gpuprov usage --since DATE --until DATE",
        )
    try:
        return parse_uses(result.stdout, controller, window=(int(since.timestamp()), int(until.timestamp())))
    except ValueError as error:
        raise EngineError(
            "Slurm's accounting gave an unexpected answer",
            evidence=f"sacct on {controller}: {excerpt(str(error))}",
            fix=f"gpuprov exec {controller} -- sacct --allusers",
        ) from error


def _away(controller: str, result: ExecResult) -> EngineError:
    """That slurmdbd or its database does not answer: why, as far as the node knows, and what becomes of jobs."""
    queued, found = QUEUE.search(result.stdout), WHY.search(result.stdout)
    said = excerpt(result.stderr.strip() or f"exit status {result.exit_code}")
    why = found[2] if found else f"sacct on {controller}: {said}"
    count = int(queued[1]) if queued else 0  # slurmctld does not count jobs whose beginning is not on record
    later = f"{count} messages of slurmctld wait for slurmdbd" if count else "are on record once it is back"
    waits = f"; jobs go on, and {later}" if queued else ""
    fix = FIXES.get(found[1] if found else "", _LOOK).format(node=controller)
    return EngineError("Slurm's accounting does not answer", evidence=f"{why}{waits}", fix=fix)


def parse_uses(text: str, controller: str = "", *, window: tuple[int, int] = _EVER) -> Uses:
    """Read what the script prints, for a window in seconds; raises ValueError for a line that it does not print."""
    head, _, body = text.partition("jobs\n")
    queued, known, verifying = _read_head(head)
    rows = [_read(line) for line in body.splitlines()]
    late = _find_late(rows, known, window)
    had_gpus = [row for row in rows if row.gpus and row.state != _PENDING]
    # An earlier cluster of the name had the same numbers
    current = [row.raw in known and row.submitted >= known[row.raw].submitted for row in had_gpus]
    found = list(zip(had_gpus, current, strict=True))
    lost = [row for row, is_current in found if row.state in _GOING_ON and not is_current]
    uses = [
        _use(row, by_verify=(row.raw, row.submitted) in verifying)
        for row, is_current in found
        if (row.raw not in late if is_current else row.state not in _GOING_ON)
    ]
    turned = [row for row in had_gpus if row.state not in _GOING_ON and row.submitted > row.end]
    notes = []
    if queued:
        notes.append(f"{queued} messages wait for slurmdbd: jobs of the last minutes may be missing")
    if late:
        example = min(late, key=int)
        notes.append(f"{len(late)} jobs have ended and are not on record yet, such as {example}: they are left out")
    if lost:
        notes.append(
            f"{len(lost)} jobs have no end on record and are left out, such as {lost[0].job}; "
            f"to end them: gpuprov exec {controller} -- sacctmgr show runawayjobs"
        )
    if turned:
        notes.append(
            f"the clock of {controller} was put back while {len(turned)} jobs waited or ran, such as {turned[0].job}: "
            "how long these ran is not known"
        )
    return Uses(uses=tuple(uses), notes=tuple(notes), late=len(late))


def _read_head(text: str) -> tuple[int, dict[str, _Known], set[tuple[str, int]]]:
    """How many messages wait for slurmdbd, the jobs that slurmctld knows, by number, and those of `gpuprov verify`."""
    queued, known, verifying = 0, dict[str, _Known](), set[tuple[str, int]]()
    for line in text.splitlines():
        if found := _LIVE.fullmatch(line):
            submitted, start, end = (_seconds(found[number]) for number in (2, 4, 5))
            known[found[1]] = _Known(submitted=submitted, state=found[3], start=start, end=end)
        elif found := QUEUE.fullmatch(line):
            queued = int(found[1])
        elif found := _VERIFY.fullmatch(line):
            verifying.add((found[1], int(found[2])))
        else:
            raise ValueError(line)
    return queued, known, verifying


def _find_late(rows: Iterable[_Row], known: Mapping[str, _Known], window: tuple[int, int]) -> set[str]:
    """Numbers of jobs that slurmctld knows to have ended, and that are not on record with that end."""
    ends = {raw: (job.submitted, min(job.end, window[1])) for raw, job in known.items() if job.has_ended_in(window)}
    there = {
        row.raw
        for row in rows
        if row.raw in ends
        and row.state not in _HAS_NO_END
        and row.submitted >= ends[row.raw][0]
        and row.end == ends[row.raw][1]
    }
    return {*ends} - there


def _read(line: str) -> _Row:
    found = _ROW.fullmatch(line)
    if found is None:
        raise ValueError(line)
    raw, job, person, account, state, submitted, end, seconds, tres, nodes = found.groups()
    return _Row(
        raw=raw,
        job=job,
        person=person,
        account=account,
        state=state,
        submitted=int(submitted),
        end=_seconds(end),
        seconds=int(seconds),
        gpus=read_gpus(tres),
        nodes=nodes,
    )


def _seconds(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _use(row: _Row, *, by_verify: bool) -> Use:
    try:
        names = () if row.nodes in _NOWHERE else expand_names(row.nodes)
    except UsageError as error:
        raise ValueError(row.nodes) from error
    return Use(
        job=row.job,
        person=_BY_VERIFY if by_verify else row.person,
        account=row.account,
        nodes=names,
        gpus=row.gpus,
        seconds=row.seconds,
        submitted=row.submitted,
        running=row.state in _GOING_ON,
    )


def read_gpus(tres: str) -> dict[str, int]:
    """How many GPUs of each type are in a list such as `cpu=1,gres/gpu:h100=2,gres/gpu=2`; those of none are `gpu`."""
    counts = {match[1] or _UNTYPED: int(match[2]) for part in tres.split(",") if (match := _GPUS.fullmatch(part))}
    whole = counts.pop(_UNTYPED, 0)
    rest = whole - sum(counts.values())
    return {**{name: count for name, count in counts.items() if count}, **({_UNTYPED: rest} if rest > 0 else {})}
