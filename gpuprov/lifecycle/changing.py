"""One way to change a cluster: drain, read, lock, look again, and start over if something moved; and one to look.

What must be read from nodes is read before the host's lock is taken: a node that hangs holds up no other command. Nodes
that are started, repaired or restored under the lock are read there, since before they could not be.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from gpuprov.cluster.state import observe_cluster, observe_engine
from gpuprov.core.errors import EngineError, GpuprovError, TimedOut
from gpuprov.core.side_by_side import ask_side_by_side
from gpuprov.core.waiting import SystemClock, Wait
from gpuprov.drivers.base import LABEL_ROLE
from gpuprov.lifecycle.files import Reading, gather_files, look_at_files, present_crew
from gpuprov.lifecycle.leaving import SPARE_JOBS, drained, refuse_busy
from gpuprov.roles.registry import roles_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from gpuprov.cluster.images import MissingImages
    from gpuprov.cluster.state import ClusterState, EngineState
    from gpuprov.core.reporter import Reporter
    from gpuprov.core.waiting import Clock
    from gpuprov.drivers.base import Driver
    from gpuprov.lifecycle.files import FilesSaid
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.lifecycle.out_of_service import Leave
    from gpuprov.machine.base import Host
    from gpuprov.roles.base import Role
    from gpuprov.shapes.engine import ImageState

    Reads = Callable[[EngineState], Collection[str]]
    Readings = Mapping[str, Reading]


class _Change(Protocol):
    """What is about to change.

    Attributes:
        leaves: The nodes that leave their clusters, and those clusters.
        missing: Images without which it cannot be done; None where there are all.
    """

    @property
    def leaves(self) -> Sequence[Leave]: ...
    @property
    def missing(self) -> MissingImages | None: ...


Change = TypeVar("Change", bound=_Change)
Seen = TypeVar("Seen")
_ROUNDS = 3
_TRIES = 5
_SETTLE_S = 2.0  # a node that is being stopped counts as running until it has ended


@contextmanager
def changing(  # noqa: PLR0913 - where, what, and what is waited for and read first
    driver: Driver,
    host: Host,
    look: Callable[[EngineState], Change],
    policy: JobsPolicy = SPARE_JOBS,
    *,
    reads: Reads | None = None,
    known: EngineState | None = None,
    reporter: Reporter,
) -> Iterator[tuple[Change, Readings]]:
    """Wait for jobs as the policy says, read nodes, and hold the host's lock for the block.

    A block cannot run twice, so all that makes this start over comes before it: other runs that change what was read,
    and images that are missing, which are built while nobody holds the lock. Where other runs change nodes again and
    again, they are read under the lock in the end, within limits as ever. Nodes that are drained take jobs again after
    the block, if they are still there.

    Args:
        host: Whose lock.
        look: Finds in all that the engine has what is to change, and refuses what cannot; changes nothing. It is
            called under the lock, and before where there are jobs to wait for: if it refuses then, nothing is held,
            for another run may be making what is missing.
        policy: What becomes of jobs on nodes that leave.
        reads: Names the clusters whose nodes are read, if any.
        known: What the engine had a moment ago: it is not asked again for the first reading.
        reporter: Is told which jobs, and which run, this one waits for.

    Yields:
        What is to change, as found under the lock; and what was read, by cluster.
    """
    built: dict[str, ImageState] = {}
    rounds = 0
    with drained(driver, lambda: look(observe_engine(driver)).leaves, policy, reporter=reporter):
        while True:
            readings, known = _read(driver, reads, known), None
            with host.lock(reporter):
                engine = replace(observe_engine(driver), built=built)
                if not _stayed(engine, reads, readings):
                    rounds += 1
                    if rounds < _ROUNDS:
                        continue
                    readings = _read(driver, reads, engine)
                change = look(engine)
                if change.missing is None:
                    yield change, {name: replace(one, state=engine.cluster(name)) for name, one in readings.items()}
                    return
                refuse_busy(driver, change.leaves, policy)
            built |= change.missing.build(driver, host, reporter)
            host = host.afresh()


def _read(driver: Driver, reads: Reads | None, known: EngineState | None) -> Readings:
    if reads is None:
        return {}
    engine = known or observe_engine(driver)
    return {name: read_cluster(driver, engine.cluster(name)) for name in sorted(reads(engine))}


def _stayed(engine: EngineState, reads: Reads | None, readings: Readings) -> bool:
    """Whether the clusters are those that were read, with the same nodes as then."""
    now = {name: _identities(engine.cluster(name)) for name in reads(engine)} if reads else {}
    return now == {name: _identities(found.state) for name, found in readings.items()}


def _identities(state: ClusterState) -> frozenset[tuple[str, ...]]:
    """Which nodes a cluster has, and how they are: whoever replaces one changes this."""
    return frozenset((node.name, node.id, node.status, str(node.complete)) for node in state.nodes)


def read_cluster(driver: Driver, state: ClusterState) -> Reading:
    """Read the roles' secrets, and what running nodes have of their files; a node that does not answer has none."""
    roles = roles_of(node.labels.get(LABEL_ROLE, "") for node in state.nodes)
    found: dict[str, bytes | GpuprovError] = {}
    files: dict[str, FilesSaid] = {}

    def read_secret(role: Role) -> None:
        try:
            found[role.name] = role.read_secret(driver, state)
        except GpuprovError as error:  # only a run that needs it must fail, and then it shall
            found[role.name] = error

    def read_files() -> None:
        with suppress(GpuprovError):  # whoever needs the files gathers them again, and says why they cannot be
            files.update(_read_files(driver, state, roles))

    questions: list[Callable[[], None]] = [*(partial(read_secret, role) for role in roles), read_files]
    ask_side_by_side(questions, workers=len(questions))
    return Reading(state=state, secrets=found, files=files)


def _read_files(driver: Driver, state: ClusterState, roles: Sequence[Role]) -> Mapping[str, FilesSaid]:
    """What running nodes say of their files; which these are does not depend on the roles' secrets."""
    crew = present_crew(state)
    if not crew.members or not all(role.can_apply(state) for role in roles):
        return {}
    unread = Reading(state=state, secrets={})
    files = gather_files(driver, crew, state, {}, unread)
    there = {member.name for member in crew.members}
    running = [node.name for node in state.nodes if node.status == "running" and node.name in there]
    return look_at_files(driver, running, files.of)


def read_steadily(driver: Driver, cluster: str, read: Callable[[], Seen], *, clock: Clock | None = None) -> Seen:
    """Read, and where that fails because nodes come, go, start or stop meanwhile, read again.

    Args:
        read: Changes nothing.

    Raises:
        EngineError: The cluster changed each time; or reading failed for another reason.
    """
    for _ in range(_TRIES):
        before = _look(driver, cluster)
        try:
            return read()
        except (EngineError, TimedOut) as error:
            if not _changes(driver, cluster, before, clock or SystemClock()):
                raise
            failed = error
    raise EngineError(
        f"cluster {cluster} was changed by another run while it was read",
        evidence=f"{failed.what}: {failed.evidence}",
        fix=f"wait for the other run to finish, then run this command again; gpuprov cluster status {cluster}",
    ) from failed


def _look(driver: Driver, cluster: str) -> object:
    state = observe_cluster(driver, cluster)
    return _identities(state), [network.name for network in state.own_networks]


def _changes(driver: Driver, cluster: str, before: object, clock: Clock) -> bool:
    wait = Wait(what="a change", timeout_s=_SETTLE_S, fix="", interval_s=0.2, clock=clock)
    try:
        wait.until(lambda: _look(driver, cluster), lambda seen: seen != before)
    except TimedOut:
        return False
    return True
