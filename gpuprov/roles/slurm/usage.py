"""How long jobs had GPUs, as Slurm's accounting knows it: root in the controller's node can say anything.

slurmctld tells slurmdbd on two connections that a job began and that it ended, and what waited for slurmdbd comes out
of order: a job that ended meanwhile is on record as COMPLETED without an end, for seconds, and sacct counts it up to
now. slurmctld's queue does not tell, as what is being sent has left it. So those jobs that slurmctld still knows to
have ended (for MinJobAge) are looked for in the records, and waited for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.core.waiting import SystemClock
from gpuprov.roles.slurm.accounting import FIXES, QUEUE, WHY
from gpuprov.roles.slurm.facts import ACCOUNTING_SCRIPT as SCRIPT
from gpuprov.roles.slurm.facts import slurm_path
from gpuprov.roles.slurm.job_rows import (
    FIELDS,
    GOING_ON,
    PENDING,
    TIME,
    read_row,
    refuse_too_many,
    seconds_of,
    use_of,
)
from gpuprov.roles.slurm.questions import VERIFY_JOB
from gpuprov.roles.usage import Uses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from gpuprov.core.waiting import Clock
    from gpuprov.drivers.base import Driver, ExecResult
    from gpuprov.roles.slurm.job_rows import Row

_ASK_S: Final = 60.0
_MOMENT: Final = "%Y-%m-%dT%H:%M:%S"
_LOOKS: Final = 31  # slurmctld tries to reach slurmdbd every ten seconds, and then begins with what began
_BETWEEN_S: Final = 1.0
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
    --starttime="$1" --endtime="$2" --format={FIELDS} && exit
status=$?
if [ ! -e {slurm_path("slurmdbd")} ]; then  # a backup of the controller
    host=$(sed -n 's/^AccountingStorageHost=//p' /etc/slurm/slurm.conf)
    echo "why elsewhere slurmdbd is on the node with the address $host, and does not answer"
else
    printf 'why %s\\n' "$(sh {SCRIPT} why 2>/dev/null)"
fi
exit $status
"""
_VERIFY: Final = re.compile(r"verify ([0-9]{1,10})\|([0-9]{1,10})", re.ASCII)
_LIVE: Final = re.compile(rf"live ([0-9]{{1,10}}) ({TIME}) ([A-Z_]{{1,20}}) ({TIME}) ({TIME})", re.ASCII)
_LOOK: Final = "gpuprov exec {node} -- tail /var/log/slurm/slurmdbd.log"
_HAS_NO_END: Final = GOING_ON | {PENDING}
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
    window = (since.strftime(_MOMENT), until.strftime(_MOMENT))
    argv = ["sh", "-c", _SCRIPT, "sh", *window]
    result = driver.run(controller, argv, timeout_s=scaled_limit_s(_ASK_S))
    if result.exit_code:
        raise _away(controller, result)
    refuse_too_many(result.stdout, controller, window)
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
    rows = [read_row(line) for line in body.splitlines()]
    late = _find_late(rows, known, window)
    had_gpus = [row for row in rows if row.gpus and row.state != PENDING]
    # An earlier cluster of the name had the same numbers
    current = [row.raw in known and row.submitted >= known[row.raw].submitted for row in had_gpus]
    found = list(zip(had_gpus, current, strict=True))
    lost = [row for row, is_current in found if row.state in GOING_ON and not is_current]
    uses = [
        use_of(row, by_verify=(row.raw, row.submitted) in verifying)
        for row, is_current in found
        if (row.raw not in late if is_current else row.state not in GOING_ON)
    ]
    turned = [row for row in had_gpus if row.state not in GOING_ON and row.submitted > row.end]
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
    return Uses(uses=tuple(uses), notes=tuple(notes), late=len(late), accounting=True)


def _read_head(text: str) -> tuple[int, dict[str, _Known], set[tuple[str, int]]]:
    """How many messages wait for slurmdbd, the jobs that slurmctld knows, by number, and those of `gpuprov verify`."""
    queued, known, verifying = 0, dict[str, _Known](), set[tuple[str, int]]()
    for line in text.splitlines():
        if found := _LIVE.fullmatch(line):
            submitted, start, end = (seconds_of(found[number]) for number in (2, 4, 5))
            known[found[1]] = _Known(submitted=submitted, state=found[3], start=start, end=end)
        elif found := QUEUE.fullmatch(line):
            queued = int(found[1])
        elif found := _VERIFY.fullmatch(line):
            verifying.add((found[1], int(found[2])))
        else:
            raise ValueError(line)
    return queued, known, verifying


def _find_late(rows: Iterable[Row], known: Mapping[str, _Known], window: tuple[int, int]) -> set[str]:
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
