"""Nodes that are about to leave are taken out of service."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import GpuprovError, TimedOut
from gpuprov.core.interrupts import to_its_end
from gpuprov.core.names import fold
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.roles.crew import RESUMED
from gpuprov.roles.registry import ROLES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from gpuprov.cluster.state import ClusterState, EngineState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.roles.departure import Departure


@dataclass(frozen=True, kw_only=True)
class Leave:
    """A cluster of which nodes are about to leave.

    Attributes:
        elsewhere: Those of the nodes that are on other hosts, and run there.
    """

    state: ClusterState
    departure: Departure
    elsewhere: tuple[str, ...] = ()

    @property
    def ending(self) -> Departure:
        """Without the nodes that do not run: nothing ends there."""
        stopped = {node.name for node in self.state.nodes if node.status == "stopped"}
        there = {node.name for node in self.state.nodes}
        running = (there - stopped) | set(self.elsewhere)
        nodes = tuple(name for name in self.departure.nodes if name in running)
        return replace(self.departure, nodes=nodes)


@dataclass(frozen=True, kw_only=True)
class NodesLeave:
    """Nodes that were named, and their clusters, which they may be about to leave."""

    nodes: Sequence[NodeState]
    leaves: Sequence[Leave]
    missing: None = None


def clusters_left(engine: EngineState, nodes: Sequence[NodeState], departure: Departure) -> NodesLeave:
    """The clusters of these nodes."""
    clusters = sorted({node.labels[LABEL_CLUSTER] for node in nodes})
    return NodesLeave(nodes=nodes, leaves=[Leave(state=engine.cluster(name), departure=departure) for name in clusters])


def names_of(leaves: Sequence[Leave]) -> str:
    """The nodes that end, in short."""
    return fold([name for leave in leaves for name in leave.ending.nodes])


def find_abandoned(driver: Driver, state: ClusterState) -> tuple[str, ...]:
    """The nodes that a killed run has left out of service, as far as one can tell."""
    with suppress(GpuprovError):
        return tuple(name for role in ROLES.values() for name in role.abandoned(driver, state))
    return ()


class OutOfService:
    """Keeps nodes out of service for as long as its block lasts; with `always`, no longer than that."""

    def __init__(self, driver: Driver, leaves: Sequence[Leave], reporter: Reporter, *, always: bool = True) -> None:
        self.leaves = leaves
        self._always = always
        self.told: list[str] = []
        self._driver = driver
        self._reporter = reporter
        self._abandoned: set[str] = set()
        self._begun = False

    def take(self) -> None:
        """Take the nodes out of service.

        Raises:
            GpuprovError: It could not be done.
        """
        for leave in self.leaves:
            if leave.ending.nodes:
                self._take_out(leave)
            else:
                self._find_abandoned(leave)

    def _take_out(self, leave: Leave) -> None:
        for role in (role for role in ROLES.values() if role.has_services):
            begun, self._begun = self._begun, True  # before: Ctrl-C may come when the role has done it
            try:
                self._abandoned.update(role.take_out_of_service(self._driver, leave.state, leave.ending.nodes))
            except GpuprovError as error:
                self._begun = begun
                if not isinstance(error, TimedOut):  # what does not answer is not asked again: the lock is held
                    self._find_abandoned(leave)
                raise

    def _find_abandoned(self, leave: Leave) -> None:
        self._abandoned.update(find_abandoned(self._driver, leave.state))
        self._begun = self._begun or bool(self._abandoned)

    def __enter__(self) -> OutOfService:  # noqa: PYI034 - Self needs Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the nodes that are there take work again."""
        if self._begun and (self._always or kind is not None):
            try:
                to_its_end(self._put_back)
            except GpuprovError as problem:
                self._reporter.warn(
                    f"could not resume {names_of(self.leaves)}: {problem.what}: {problem.evidence}; "
                    "to resume them: gpuprov cluster up"
                )

    def _put_back(self) -> None:
        for leave in self.leaves:
            state = observe_cluster(self._driver, leave.state.name)
            for role in ROLES.values():
                back = role.put_back_in_service(self._driver, state, running=leave.elsewhere)
                self.told += [RESUMED.format(name) for name in back if name in self._abandoned]
