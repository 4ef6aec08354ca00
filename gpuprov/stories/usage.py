"""`usage`: how long people, accounts, nodes, GPUs and jobs had GPUs, of a cluster and of `gpuprov run` on this host.

Nothing but the record of `gpuprov run` is changed, and no lock is held.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.core.units import HOUR_S
from gpuprov.drivers.base import LABEL_ACCESS
from gpuprov.lifecycle.find_controller import get_controller, roles_of_cluster
from gpuprov.lifecycle.run_job import JOBS
from gpuprov.lifecycle.run_record import uses_of_runs
from gpuprov.roles.base import spec_of
from gpuprov.roles.registry import ROLES
from gpuprov.roles.usage import UNKNOWN, Use, Uses, overlap_s, sort_rows, sum_uses
from gpuprov.shapes.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host
    from gpuprov.shapes.jobs import Job, Jobs
    from gpuprov.shapes.usage import By

_SIMULATED: Final = "simulated"
_DATE: Final = r"(?:19[7-9]|[2-9][0-9]{2})[0-9]-[0-9]{2}-[0-9]{2}"  # as seconds since 1970 have them
_FORMS: Final = tuple(
    (re.compile(pattern, re.ASCII), form)
    for pattern, form in (
        (_DATE, "%Y-%m-%d"),
        (f"{_DATE}T[0-9]{{2}}:[0-9]{{2}}", "%Y-%m-%dT%H:%M"),
        (f"{_DATE}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}Z", "%Y-%m-%dT%H:%M:%SZ"),
    )
)
_AGO: Final = re.compile(r"([0-9]{1,4})([smhd])", re.ASCII)  # a bare number would be half a date
_AGO_S: Final = {"s": 1, "m": 60, "h": HOUR_S, "d": 24 * HOUR_S}
_VERB: Final = "gpuprov usage"
_ONLY_SUBMITTED: Final = (
    "only jobs of `gpuprov submit` and of grids are counted, of each the last try; from the next `gpuprov cluster up` "
    "on, Slurm counts all"
)
_OF_WORKERS: Final = "of each job, the last try is counted"


@dataclass(frozen=True, kw_only=True)
class _Counted:
    """What jobs of a cluster had."""

    uses: Uses
    accounting: bool
    simulated: bool


def read_usage(
    find_driver: Callable[[], Driver],
    cluster: str,
    window: tuple[datetime, datetime],
    *,
    by: By,
    host: Host,
    with_runs: bool,
) -> Usage:
    """What jobs of a cluster, and containers of `gpuprov run` on this host, had in a window of time.

    Args:
        find_driver: The way to the engine that has the controller.
        cluster: Its name.
        window: From when to when, in UTC; no later than now.
        by: What a row is.
        host: This one.
        with_runs: Whether containers of `gpuprov run` count; then a cluster that is not there is no error if any do.

    Raises:
        UsageError: There is no such cluster, or it takes no jobs (now).
        EngineError: Its nodes do not say.
    """
    since, until = window
    runs = uses_of_runs(host, (since.timestamp(), until.timestamp())) if with_runs else Uses(uses=())
    lack: tuple[str, ...] = ()
    try:
        counted = _count_cluster(find_driver(), cluster, window, host)
    except UsageError as error:
        if not runs.uses:
            raise
        counted = _Counted(uses=Uses(uses=()), accounting=False, simulated=False)
        lack = (f"only `gpuprov run` is counted: {error.what}",)
    rows = (*sum_uses(counted.uses.uses, by, cluster), *sum_uses(runs.uses, by, JOBS))
    return Usage(
        host=host.name,
        cluster=cluster,
        since=_moment(since),
        until=_moment(until),
        by=by,
        rows=sort_rows(rows),
        gpu_seconds=sum(use.seconds * sum(use.gpus.values()) for use in (*counted.uses.uses, *runs.uses)),
        simulated=counted.simulated or runs.simulated,
        accounting=counted.accounting,
        notes=(*lack, *counted.uses.notes, *runs.notes),
    )


def _count_cluster(driver: Driver, cluster: str, window: tuple[datetime, datetime], host: Host) -> _Counted:
    try:
        state, roles = roles_of_cluster(driver, cluster, verb=_VERB)
    except UsageError as error:
        raise _with_kept(error, cluster, host) from error
    told = next((uses for role in roles if (uses := role.uses(driver, state, *window))), None)
    if told is None:
        uses = _submitted(driver, cluster, window, can_count=any(role.can_account for role in roles))
    elif told.accounting or not spec_of(state).share:
        uses = told
    else:
        uses = with_submitted(told, get_controller(driver, cluster, verb=_VERB).list_jobs(), window)
    simulated = any(node.labels.get(LABEL_ACCESS) == _SIMULATED for node in state.nodes)
    return _Counted(uses=uses, accounting=uses.accounting, simulated=simulated)


def _with_kept(error: UsageError, cluster: str, host: Host) -> UsageError:
    """Why a cluster without nodes is not counted, where figures of it have outlived them."""
    folders = ROLES.outliving_folders(cluster)
    kept = [f"{one.source} has {one.title}" for one in folders if host.folders.look(one.source).kind == "folder"]
    if not kept:
        return error
    return UsageError(
        f"the cluster {cluster} has no nodes; its figures are kept, but only its nodes can read them",
        evidence="; ".join(kept),
        fix="create it again, with `accounting: on` in FILE: gpuprov cluster up -f FILE",
    )


def _submitted(driver: Driver, cluster: str, window: tuple[datetime, datetime], *, can_count: bool) -> Uses:
    jobs = get_controller(driver, cluster, verb=_VERB).list_jobs()
    return uses_of_jobs(jobs, window, note=_ONLY_SUBMITTED if can_count else _OF_WORKERS)


def uses_of_jobs(jobs: Jobs, window: tuple[datetime, datetime], *, note: str) -> Uses:
    """What the records of submitted jobs tell: a pure function."""
    uses = (_use(job, _span(window)) for job in jobs.jobs)
    return Uses(uses=tuple(filter(None, uses)), notes=(note, *_left_out(jobs)))


def with_submitted(uses: Uses, jobs: Jobs, window: tuple[datetime, datetime]) -> Uses:
    """What a record of Slurm's tells, with the names of those who submitted, and submissions that it lacks.

    They are from before it, as it goes with the node that has it.
    """
    owners = {job.submission: job.submitter.owner for job in jobs.jobs if job.submitter}
    there = {use.submission for use in uses.uses}
    named = (replace(use, person=owners.get(use.submission, use.person)) for use in uses.uses)
    earlier = (_use(job, _span(window)) for job in jobs.jobs if job.submission not in there)
    return replace(uses, uses=(*named, *filter(None, earlier)), notes=(*uses.notes, *_left_out(jobs)))


def _left_out(jobs: Jobs) -> tuple[str, ...]:
    return (f"{jobs.older} older submissions are left out",) if jobs.older else ()


def _span(window: tuple[datetime, datetime]) -> tuple[float, float]:
    return window[0].timestamp(), window[1].timestamp()


def _use(job: Job, window: tuple[float, float]) -> Use | None:
    """One job; None where it had no GPU in the window, or where nobody knows when it ended."""
    running = job.state == "running"
    if not job.gpus or job.started is None or not (job.ended or running):
        return None
    start_s = _seconds(job.started)
    end_s = window[1] if job.ended is None else _seconds(job.ended)
    if end_s <= window[0] or start_s >= window[1]:
        return None
    person = job.submitter.owner if job.submitter else UNKNOWN
    return Use(
        job=job.id,
        person=person,
        account=UNKNOWN,
        nodes=(job.node,) if job.node else (),
        gpus=dict.fromkeys(job.gpus, 1),
        seconds=overlap_s(start_s, end_s, window),
        running=running,
    )


def parse_moment(text: str, option: str, now: datetime) -> datetime:
    """A date, or a date and a time, in UTC, or how long ago that was, as a user types them.

    Raises:
        UsageError: It is none.
    """
    if ago := _AGO.fullmatch(text):
        return now - timedelta(seconds=int(ago[1]) * _AGO_S[ago[2]])
    form = next((form for pattern, form in _FORMS if pattern.fullmatch(text)), "")
    with suppress(ValueError):
        return datetime.strptime(text, form).replace(tzinfo=timezone.utc)
    raise UsageError(
        f"{option} is no date: {text[:40]!r}",
        evidence="dates are in UTC, such as 2026-11-01 or 2026-11-01T08:30; 12h and 7d are so long ago",
        fix="gpuprov usage --since 7d",
    )


def _moment(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(moment: str) -> float:
    return datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
