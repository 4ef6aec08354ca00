"""The record of jobs that had GPUs, where there is no accounting: how it is made, and read.

slurmctld runs a program each time that a job ends (jobcomp/script), which has the job in variables, and asks scontrol
for its GPUs. The record is beside slurmctld's state: it comes along where a node with that is replaced, and a backup
writes the same one. slurm in the controller's node can write there what it wants, as root there can.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpuprov.assets import get_asset
from gpuprov.core.errors import EngineError
from gpuprov.core.excerpt import excerpt
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.drivers.base import File
from gpuprov.render.templates import render
from gpuprov.roles.slurm.backup import state_folder
from gpuprov.roles.slurm.facts import slurm_path
from gpuprov.roles.slurm.job_rows import read_row, refuse_too_many, use_of
from gpuprov.roles.slurm.questions import VERIFY_JOB
from gpuprov.roles.usage import Uses, overlap_s
from gpuprov.spec.shared_folder import ACCOUNT, JOBS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from gpuprov.drivers.base import Driver
    from gpuprov.roles.usage import Use
    from gpuprov.shapes.cluster_spec import ClusterSpec

_ASK_S: Final = 60.0
_THERE: Final = "record"
# A controller that is from before the record, and has not been brought to its spec since, says nothing
_SCRIPT: Final = f"""\
[ -x {slurm_path("job_ended")} ] || exit 0
echo {_THERE}
{slurm_path("job_ended")} show "$@" """
_VERIFY: Final = "verify"


def record_program(spec: ClusterSpec) -> File:
    """What slurmctld runs when a job has ended."""
    kept = state_folder(spec)
    state = kept.mount.target if kept else slurm_path("state")
    values = {"state": state, "account": ACCOUNT, "jobs": JOBS, "verify": VERIFY_JOB}
    text = render(get_asset("templates"), "slurm/job-ended.sh.j2", **values)
    return File(path=slurm_path("job_ended"), content=text.encode(), mode=0o755)


def ask_record(
    driver: Driver, controller: str, *, since: datetime, until: datetime, accounts: Mapping[str, str]
) -> Uses | None:
    """What the record of a controller says of jobs within a window, and the controller of those that run.

    Args:
        driver: The engine.
        controller: The node that runs slurmctld.
        since: When the window begins, in UTC.
        until: When it ends, no later than now.
        accounts: Of people.

    Returns:
        None where it has no record yet.

    Raises:
        EngineError: It does not say, or says what the record does not.
        UsageError: There are too many jobs.
        TimedOut: It did not answer.
    """
    window = (int(since.timestamp()), int(until.timestamp()))
    argv = ["sh", "-c", _SCRIPT, "sh", *map(str, window)]
    result = driver.run(controller, argv, timeout_s=scaled_limit_s(_ASK_S))
    if not result.exit_code and not result.stdout:
        return None
    if result.exit_code:
        raise _unread(controller, result.stderr.strip() or f"exit status {result.exit_code}")
    refuse_too_many(result.stdout, controller, (f"{since:%Y-%m-%d}", f"{until:%Y-%m-%d}"))
    try:
        return parse_record(result.stdout, window, accounts)
    except ValueError as error:
        raise _unread(controller, str(error)) from error


def _unread(controller: str, evidence: str) -> EngineError:
    return EngineError(
        "Slurm's record of jobs cannot be read",
        evidence=f"{controller}: {excerpt(evidence) or 'an empty line'}",
        fix=f"gpuprov exec {controller} -- scontrol ping",
    )


def parse_record(text: str, window: tuple[int, int], accounts: Mapping[str, str]) -> Uses:
    """Read its lines, for a window in seconds; raises ValueError where it is no record.

    Jobs that run come first: one that ends meanwhile is there twice, and counts as it has ended. A disk that was full
    leaves part of a line.
    """
    head, *lines = text.splitlines()
    if head != _THERE:
        raise ValueError(head)
    tries: dict[tuple[str, int], Use] = {}
    damaged = 0
    for line in lines:
        told, _, known_by = line.rpartition("|")
        try:
            row = read_row(told)
            use = use_of(row, by_verify=known_by == _VERIFY)
        except ValueError:
            damaged += 1
            continue
        started = row.end - row.seconds
        tries[row.raw, started] = replace(
            use,
            account=accounts.get(row.person, ""),
            seconds=overlap_s(started, row.end, window),
            submission=known_by if known_by.isdecimal() else "",
        )
    notes = (f"{damaged} lines of Slurm's record are damaged, and left out",) if damaged else ()
    return Uses(uses=tuple(tries.values()), notes=notes)
