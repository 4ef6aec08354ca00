"""One way to change a cluster: drain, read, lock, look again, and start over if something moved.

What must be read from nodes is read before the host's lock is taken: a node that hangs holds up no other command. Nodes
that are started, repaired or restored under the lock are read there, since before they could not be.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from gpuprov.cluster.state import observe_engine
from gpuprov.core.errors import GpuprovError
from gpuprov.planes.across.leaving import SPARE_JOBS, drained
from gpuprov.planes.across.reading import read_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpuprov.cluster.state import ClusterState, EngineState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.host.base import Host
    from gpuprov.planes.across.hold import Leave
    from gpuprov.planes.across.leaving import JobsPolicy
    from gpuprov.planes.across.reading import Readings


class _Change(Protocol):
    @property
    def leaves(self) -> Sequence[Leave]: ...


Change = TypeVar("Change", bound=_Change)
_ROUNDS = 3


@contextmanager
def changing(
    driver: Driver,
    host: Host,
    look: Callable[[EngineState], Change],
    policy: JobsPolicy = SPARE_JOBS,
    *,
    reads: bool = False,
    reporter: Reporter,
) -> Iterator[tuple[Change, Readings]]:
    """Wait for jobs as the policy says, read nodes, and hold the host's lock for the block.

    Nodes that are drained take jobs again after it, if they are still there. Where other runs change what is read
    again and again, it is read under the lock in the end, within limits as ever.

    Args:
        driver: The engine.
        host: Whose lock.
        look: Finds in all that the engine has what is about to change: the clusters, and which nodes leave them.
            Where it refuses before the lock is held, another run may be making what is missing: only what it says
            under the lock counts.
        policy: What becomes of jobs on nodes that leave.
        reads: Whether the nodes of the clusters are read.
        reporter: Is told which jobs, and which run, this one waits for.

    Yields:
        What is to change, as found under the lock; and what was read, by cluster.
    """
    with drained(driver, lambda: look(observe_engine(driver)).leaves, policy, reporter=reporter):
        for rounds_left in reversed(range(_ROUNDS)):
            readings = _read(driver, _look_early(driver, look)) if reads else {}
            with host.lock(reporter):
                change = look(observe_engine(driver))
                now = {leave.state.name: leave.state for leave in change.leaves}
                if reads and not _stayed(now, readings):
                    if rounds_left:
                        continue
                    readings = _read(driver, change.leaves)
                yield change, {name: replace(found, state=now[name]) for name, found in readings.items()}
                return


def _look_early(driver: Driver, look: Callable[[EngineState], Change]) -> Sequence[Leave]:
    engine = observe_engine(driver)
    with suppress(GpuprovError):
        return look(engine).leaves
    return ()


def _read(driver: Driver, leaves: Sequence[Leave]) -> Readings:
    return {leave.state.name: read_cluster(driver, leave.state) for leave in leaves}


def _stayed(now: dict[str, ClusterState], readings: Readings) -> bool:
    """Whether the clusters are those that were read, with the same nodes as then."""
    return {name: _identities(state) for name, state in now.items()} == {
        name: _identities(found.state) for name, found in readings.items()
    }


def _identities(state: ClusterState) -> frozenset[tuple[str, ...]]:
    """Which nodes a cluster has, and how they are: whoever replaces one changes this."""
    return frozenset((node.name, node.id, node.status, str(node.complete)) for node in state.nodes)
