"""Nodes leave without taking anybody's job along: take them out of service, look, act, put back those that stay."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuprov.core.errors import GpuprovError, TimedOut, UsageError
from gpuprov.core.excerpt import few
from gpuprov.core.rollback import REPEAT
from gpuprov.core.waiting import Clock, SystemClock, Wait
from gpuprov.lifecycle.out_of_service import OutOfService, names_of
from gpuprov.roles.registry import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.lifecycle.out_of_service import Leave
    from gpuprov.roles.departure import Job

SETTLE_S = 5.0  # a job that has ended is Slurm's for a moment longer, while it cleans up
_LOOK_S = 2.0
_SHOWN = 20  # jobs in an error
_NAMED = 200  # jobs of which each that ends has a line


@dataclass(frozen=True, kw_only=True)
class JobsPolicy:
    """What becomes of jobs on nodes that are about to leave; by default, the nodes stay.

    Attributes:
        force: The jobs end, and are named.
        drain_s: How long to wait for the jobs to end first; None not to wait.
        first: A command that ends the nodes and has options for this, if the one that was typed has none.
        agreed: Whether whoever knows the jobs has agreed already, for nodes of several hosts.
        goes_on: Whether the cluster does on other hosts, where all its nodes here go.
    """

    force: bool = False
    drain_s: float | None = None
    first: str = ""
    agreed: bool = False
    goes_on: bool = False
    clock: Clock = field(default_factory=SystemClock)


SPARE_JOBS = JobsPolicy()


def find_jobs(driver: Driver, leaves: Sequence[Leave]) -> tuple[Job, ...]:
    """The jobs that would end with the nodes; changes nothing.

    Raises:
        GpuprovError: Nobody can tell.
    """
    found = [
        role.jobs(driver, leave.state, leave.ending)
        for leave in leaves
        for role in ROLES.values()
        if leave.ending.nodes
    ]
    return tuple(job for jobs in found for job in jobs)


def refuse_busy(driver: Driver, leaves: Sequence[Leave], policy: JobsPolicy) -> None:
    """Refuse early what `leaving` would refuse, where nothing is to be changed yet.

    Raises:
        UsageError: Jobs run on one of the nodes, or that is unknown.
    """
    if not policy.force:
        try:
            found = find_jobs(driver, leaves)
        except GpuprovError as error:
            raise _nobody_can_tell(error, leaves, policy) from error
        if any(not job.ending for job in found):
            raise _busy(found, leaves, policy)


@contextmanager
def drained(
    driver: Driver, look: Callable[[], Sequence[Leave]], policy: JobsPolicy, *, reporter: Reporter
) -> Iterator[None]:
    """Where the policy says so: have no job start on the nodes, and wait until those there have ended.

    For outside of the host's lock: it may take hours. Whatever happens in the block, the nodes take jobs again after
    it, if they are still there.

    Args:
        driver: The engine.
        look: Tells which nodes are about to leave; called only where there is something to wait for. Where it refuses,
            nothing is taken out: another run may be making what is missing, and the look under the lock decides.
        policy: What becomes of jobs.
        reporter: Is told for which jobs this waits.

    Raises:
        UsageError: Nobody can tell whether there are jobs.
        TimedOut: They have not ended in time, and are not to end by force.
    """
    if policy.drain_s is None:
        yield
        return
    leaves: Sequence[Leave] = ()
    with suppress(UsageError):
        leaves = look()
    out = OutOfService(driver, leaves, reporter)
    with out:
        with reporter.phase("drain"):
            if _taken_out(out, policy, reporter=reporter):
                _wait(driver, out.leaves, policy, reporter=reporter)
        yield


@contextmanager
def leaving(
    driver: Driver, leaves: Sequence[Leave], policy: JobsPolicy, *, reporter: Reporter, stopping: bool = False
) -> Iterator[list[str]]:
    """Have no job start on nodes, and refuse if one runs there; where the block fails, have them take jobs again.

    Where it ends well, `Role.wait_ready` in it has had them take jobs again, unless they are gone.

    Args:
        driver: The engine.
        leaves: Which nodes.
        policy: What becomes of jobs.
        reporter: Is told whose jobs end.
        stopping: Whether the nodes stay, and nobody waits for them to be ready: they do not run afterwards, or go on.

    Yields:
        A list which gets, where nodes were `stopping`, a line for each node that a killed run had left out of service.

    Raises:
        UsageError: Jobs run on one of them, or that is unknown, and the policy does not say to go on.
    """
    out = OutOfService(driver, leaves, reporter, always=stopping)
    with out:
        if _taken_out(out, policy, reporter=reporter) and any(leave.ending.nodes for leave in leaves):
            _settle(driver, leaves, policy, reporter=reporter)
        yield out.told


def take_out_elsewhere(driver: Driver, leave: Leave, policy: JobsPolicy, *, reporter: Reporter) -> None:
    """Have no job start on nodes of other hosts, wait as the policy says, and refuse if a job runs there.

    They stay out of service: whoever asks for this puts them back, unless they are gone.

    Args:
        driver: The engine with the node that gives work.
        leave: Which nodes.
        policy: What becomes of jobs.
        reporter: Is told whose jobs end.

    Raises:
        UsageError: Jobs run on one of them, or that is unknown, and the policy does not say to go on.
        TimedOut: Jobs have not ended in time, and are not to end by force.
    """
    out = OutOfService(driver, [leave], reporter, always=False)
    with out:
        if _taken_out(out, policy, reporter=reporter):
            if policy.drain_s is not None:
                with reporter.phase("drain"):
                    _wait(driver, [leave], policy, reporter=reporter)
            _settle(driver, [leave], policy, reporter=reporter)


def _taken_out(out: OutOfService, policy: JobsPolicy, *, reporter: Reporter) -> bool:
    """Take the nodes out of service; returns whether that was possible, where the policy says to go on without."""
    try:
        out.take()
    except GpuprovError as error:
        _go_on_blindly(error, out.leaves, policy, reporter=reporter)
        return False
    return True


def _settle(driver: Driver, leaves: Sequence[Leave], policy: JobsPolicy, *, reporter: Reporter) -> None:
    """Refuse, or end the jobs, unless there are none, or none but such as have ended already."""
    try:
        found = _without_ended(driver, leaves, policy)
    except GpuprovError as error:
        _go_on_blindly(error, leaves, policy, reporter=reporter)
        return
    if not found:
        return
    if not policy.force:
        raise _busy(found, leaves, policy)
    for job in found[:_NAMED]:
        reporter.warn(f"ending job {job}")
    if len(found) > _NAMED:
        reporter.warn(f"ending {len(found) - _NAMED} more jobs")
    try:
        again = [number for leave in leaves for number in _end_jobs(driver, leave)]
    except GpuprovError as error:
        reporter.warn(f"could not report the end of the jobs: {error.what}: {error.evidence}")
    else:
        for number in again:
            reporter.note(f"job {number} is queued again")


def _end_jobs(driver: Driver, leave: Leave) -> list[str]:
    """End the jobs of one cluster, for another has the same ids; returns those that are queued again."""
    again: list[str] = []
    for role in ROLES.values():
        jobs = role.jobs(driver, leave.state, leave.ending)
        again += role.end_jobs(driver, leave.state, leave.ending, jobs) if jobs else ()
    return again


def _without_ended(driver: Driver, leaves: Sequence[Leave], policy: JobsPolicy) -> tuple[Job, ...]:
    """The jobs, once those that are only being cleaned up are gone, or have had their time."""
    seen: list[tuple[Job, ...]] = []

    def look() -> tuple[Job, ...]:
        seen.append(find_jobs(driver, leaves))
        return seen[-1]

    wait = Wait(what="jobs that have ended", timeout_s=SETTLE_S, fix="gpuprov list", clock=policy.clock)
    try:
        return wait.until(look, lambda found: not found or any(not job.ending for job in found))
    except TimedOut:
        if not seen:
            raise
        return seen[-1]


def _wait(driver: Driver, leaves: Sequence[Leave], policy: JobsPolicy, *, reporter: Reporter) -> None:
    """Wait for the jobs that run; those that wait in a queue which is to go would wait for ever."""
    last = ""

    def look() -> str:
        """The jobs in words; a controller that is being restarted meanwhile is asked again."""
        nonlocal last
        try:
            running = [job for job in find_jobs(driver, leaves) if job.place]
            words = _listed(running)
        except GpuprovError as error:
            words = f"{error.what}: {error.evidence}"
        if words not in ("", last):
            reporter.note(f"waiting for {words}")
        last = words
        return words

    wait = Wait(
        what=f"the jobs on {names_of(leaves)} to end",
        timeout_s=policy.drain_s or 0.0,
        fix=f"{REPEAT} with a longer time, such as --drain 8h, or with --force to end the jobs",
        interval_s=_LOOK_S,
        clock=policy.clock,
    )
    try:
        wait.until(look, lambda words: not words)
    except TimedOut as error:
        if not policy.force:
            raise
        reporter.warn(f"{error.what}: {error.evidence}")


def _go_on_blindly(error: GpuprovError, leaves: Sequence[Leave], policy: JobsPolicy, *, reporter: Reporter) -> None:
    if not policy.force:
        raise _nobody_can_tell(error, leaves, policy) from error
    reporter.warn(f"any jobs on {names_of(leaves)} will end; they could not be listed: {error.what}: {error.evidence}")


def _busy(jobs: Sequence[Job], leaves: Sequence[Leave], policy: JobsPolicy) -> UsageError:
    wait = "--drain to wait for them, or with " if any(job.place for job in jobs) else ""
    fix = f"{REPEAT} with {wait}--force to end them"
    if policy.first:
        fix = f"{policy.first} --drain, or with --force to end them; then {REPEAT}"
    return UsageError(f"there are jobs on {names_of(leaves)}", evidence=_listed(jobs), fix=fix)


def _nobody_can_tell(error: GpuprovError, leaves: Sequence[Leave], policy: JobsPolicy) -> UsageError:
    fix = f"{REPEAT} with --force to continue even if jobs are running"
    if policy.first:
        fix = f"{policy.first} --force, even if jobs are running; then {REPEAT}"
    return UsageError(
        f"cannot tell whether jobs run on {names_of(leaves)}",
        evidence=f"{error.what}: {error.evidence}",
        fix=f"{error.fix}; or {fix}",
    )


def _listed(jobs: Sequence[Job]) -> str:
    return few([f"job {job}" for job in jobs], _SHOWN)
