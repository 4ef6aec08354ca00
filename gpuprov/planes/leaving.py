"""Nodes leave without taking anybody's job along: hold them, look, act, let those that stay take work again."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import GpuprovError, TimedOut, UsageError
from gpuprov.core.interrupts import to_its_end
from gpuprov.core.names import fold
from gpuprov.core.waiting import Clock, SystemClock, Wait
from gpuprov.planes.base import RELEASED
from gpuprov.planes.registry import PLANES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.planes.base import Departure, Job

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
    """

    force: bool = False
    drain_s: float | None = None
    clock: Clock = field(default_factory=SystemClock)


SPARE_JOBS = JobsPolicy()


@dataclass(frozen=True, kw_only=True)
class Leave:
    """A cluster of which nodes are about to leave."""

    state: ClusterState
    departure: Departure

    @property
    def ending(self) -> Departure:
        """Without the nodes that do not run: nothing ends there."""
        stopped = {node.name for node in self.state.nodes if node.status == "stopped"}
        there = {node.name for node in self.state.nodes}
        nodes = tuple(name for name in self.departure.nodes if name in there - stopped)
        return replace(self.departure, nodes=nodes)


def find_jobs(driver: Driver, leaves: Sequence[Leave]) -> tuple[Job, ...]:
    """The jobs that would end with the nodes; changes nothing.

    Raises:
        GpuprovError: Nobody can tell.
    """
    found = [
        plane.jobs(driver, leave.state, leave.ending)
        for leave in leaves
        for plane in PLANES.values()
        if leave.ending.nodes
    ]
    return tuple(job for jobs in found for job in jobs)


def refuse_busy(driver: Driver, leaves: Sequence[Leave], policy: JobsPolicy) -> None:
    """Refuse early what `leaving` would refuse, where nothing is to be changed yet.

    Raises:
        UsageError: Somebody works on one of the nodes, or nobody can tell.
    """
    if not policy.force:
        try:
            found = find_jobs(driver, leaves)
        except GpuprovError as error:
            raise _nobody_can_tell(error, leaves) from error
        if any(not job.ending for job in found):
            raise _busy(found, leaves)


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
            nothing is held: another run may be making what is missing, and the look under the lock decides.
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
    hold = _Hold(driver, leaves, reporter)
    with hold:
        with reporter.phase("drain"):
            if hold.take(policy):
                _wait(driver, hold.leaves, policy, reporter=reporter)
        yield


@contextmanager
def leaving(
    driver: Driver, leaves: Sequence[Leave], policy: JobsPolicy, *, reporter: Reporter, stopping: bool = False
) -> Iterator[list[str]]:
    """Have no job start on nodes, and refuse if one runs there; where the block fails, have them take jobs again.

    Where it ends well, `Plane.wait_ready` in it has had them take jobs again, unless they are gone.

    Args:
        driver: The engine.
        leaves: Which nodes.
        policy: What becomes of jobs.
        reporter: Is told whose jobs end.
        stopping: Whether the nodes stay and do not run afterwards: nobody waits for them to be ready.

    Yields:
        A list to which is added, where nodes were `stopping`, a line for each node that a killed run had held.

    Raises:
        UsageError: Somebody works on one of them, or nobody can tell, and the policy does not say to go on.
    """
    hold = _Hold(driver, leaves, reporter, always=stopping)
    with hold:
        if hold.take(policy) and any(leave.ending.nodes for leave in leaves):
            _settle(driver, leaves, policy, reporter=reporter)
        yield hold.told


def find_abandoned(driver: Driver, state: ClusterState) -> tuple[str, ...]:
    """The nodes that a killed run has left held, as far as one can tell."""
    with suppress(GpuprovError):
        return tuple(name for plane in PLANES.values() for name in plane.abandoned(driver, state))
    return ()


class _Hold:
    """What keeps work from nodes, for as long as its block lasts; with `always`, no longer than that."""

    def __init__(self, driver: Driver, leaves: Sequence[Leave], reporter: Reporter, *, always: bool = True) -> None:
        self.leaves = leaves
        self._always = always
        self.told: list[str] = []
        self._driver = driver
        self._reporter = reporter
        self._abandoned: set[str] = set()
        self._begun = False

    def take(self, policy: JobsPolicy) -> bool:
        """Keep work from the nodes; returns whether that was possible.

        Raises:
            UsageError: It could not be done, and the policy does not say to go on.
        """
        for leave in self.leaves:
            self._abandoned.update(find_abandoned(self._driver, leave.state))
        self._begun = bool(self._abandoned)
        try:
            for leave in self.leaves:
                if leave.ending.nodes:
                    self._hold(leave)
        except GpuprovError as error:
            _go_on_blindly(error, self.leaves, policy, reporter=self._reporter)
            return False
        return True

    def _hold(self, leave: Leave) -> None:
        for plane in (plane for plane in PLANES.values() if plane.has_services):
            begun, self._begun = self._begun, True  # before: Ctrl-C may come when the plane has done it
            try:
                plane.hold(self._driver, leave.state, leave.ending.nodes)
            except GpuprovError:
                self._begun = begun
                raise

    def __enter__(self) -> _Hold:  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the nodes that are there take work again."""
        if self._begun and (self._always or kind is not None):
            try:
                to_its_end(self._release)
            except GpuprovError as problem:
                self._reporter.warn(
                    f"could not let {_names(self.leaves)} take jobs again: {problem.what}: {problem.evidence}; "
                    "the next run does it: gpuprov cluster up"
                )

    def _release(self) -> None:
        for leave in self.leaves:
            state = observe_cluster(self._driver, leave.state.name)
            for plane in PLANES.values():
                released = plane.release(self._driver, state)
                self.told += [RELEASED.format(name) for name in released if name in self._abandoned]


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
        raise _busy(found, leaves)
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
    for plane in PLANES.values():
        jobs = plane.jobs(driver, leave.state, leave.ending)
        again += plane.end_jobs(driver, leave.state, leave.ending, jobs) if jobs else ()
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
        what=f"the jobs on {_names(leaves)} to end",
        timeout_s=policy.drain_s or 0.0,
        fix="repeat the command with a longer time, such as --drain 8h, or with --force to end the jobs",
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
        raise _nobody_can_tell(error, leaves) from error
    reporter.warn(f"jobs on {_names(leaves)} end, if there are any: {error.what}: {error.evidence}")


def _busy(jobs: Sequence[Job], leaves: Sequence[Leave]) -> UsageError:
    wait = "--drain to wait for them, or with " if any(job.place for job in jobs) else ""
    return UsageError(
        f"jobs would end with {_names(leaves)}",
        evidence=_listed(jobs),
        fix=f"repeat the command with {wait}--force to end them",
    )


def _nobody_can_tell(error: GpuprovError, leaves: Sequence[Leave]) -> UsageError:
    return UsageError(
        f"cannot tell whether jobs run on {_names(leaves)}",
        evidence=f"{error.what}: {error.evidence}",
        fix=f"{error.fix}; or repeat the command with --force to go on, whatever runs there",
    )


def _names(leaves: Sequence[Leave]) -> str:
    return fold([name for leave in leaves for name in leave.ending.nodes])


def _listed(jobs: Sequence[Job]) -> str:
    more = [f"and {len(jobs) - _SHOWN} more"] if len(jobs) > _SHOWN else []
    return ", ".join([*(f"job {job}" for job in jobs[:_SHOWN]), *more])
