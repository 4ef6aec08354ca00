"""Nodes that are replaced by new ones of the same name: what has to be written down before an old one goes.

In this order: the node's labels onto the cluster's network; where it has the queue, its service is stopped, the queue
kept in a file and that written down as well; the node is removed; the new one is made with what was written down and
the queue, and waited for; the file and the record go. A run that is killed in between is continued by the next one.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gpuprov.cluster.replacements import dump_replacements, ghost_of, read_replacements, replacement_of
from gpuprov.cluster.services import is_down, stop_well
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, GpuprovError
from gpuprov.core.group_files import user_name
from gpuprov.core.interrupts import to_its_end
from gpuprov.drivers.base import LABEL_REPLACED
from gpuprov.lifecycle.kept_queue import arrival_files, forget_queue, go_on, keep_queue, queue_file, queue_of
from gpuprov.roles.base import spec_of
from gpuprov.shapes.base import changed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, File, NodeState
    from gpuprov.machine.base import Host
    from gpuprov.shapes.cluster_spec import ClusterSpec
    from gpuprov.shapes.records import Replacement


@contextmanager
def replacing(
    driver: Driver, node: NodeState, spec: ClusterSpec, host: Host, *, keeps: bool, reporter: Reporter
) -> Iterator[None]:
    """Write down what a node is, and keep its queue; in the block it is replaced. If that fails, it goes on as it was.

    Args:
        driver: The engine.
        node: The node, which is held, and on which no job runs.
        spec: Of its cluster.
        host: The machine, whose lock is taken for moments only: the queue comes from a node that may be slow.
        keeps: Whether it has a queue that goes on.
        reporter: Is told what goes on.

    Raises:
        GpuprovError: It cannot be; nothing was removed.
    """
    queue = queue_of(node, spec) if keeps else None
    written = replacement_of(node)
    try:
        _write(driver, host, spec.name, changed(written, queue="stopped" if queue else "none"), reporter)
        if queue:
            with reporter.phase("queue"):
                stop_well(driver, node.name, queue.service)
                keep_queue(driver, spec.name, node.name, queue, reporter=reporter)
            _write(driver, host, spec.name, changed(written, queue="kept", keeper=user_name()), reporter)
        yield
    except BaseException:
        unchecked = host.checked(lambda: None)  # if the cluster is elsewhere by now, this node goes on all the same
        to_its_end(partial(mend_replacing, driver, spec.name, unchecked, reporter=reporter))
        raise


def _write(driver: Driver, host: Host, cluster: str, written: Replacement, reporter: Reporter) -> None:
    with host.lock(reporter):
        state = observe_cluster(driver, cluster)
        _record(driver, state, {**read_replacements(state), written.name: written})


def _record(driver: Driver, state: ClusterState, replacements: Mapping[str, Replacement]) -> None:
    """Write down nodes onto the cluster's networks; no change where that is what is recorded. The lock is held."""
    text = dump_replacements(replacements)
    for number, network in enumerate(sorted(state.own_networks, key=lambda one: one.name)):
        wanted = text if number == 0 else ""
        if network.labels.get(LABEL_REPLACED, "") != wanted:
            driver.set_network_labels(network.name, {LABEL_REPLACED: wanted})


def mend_replacing(
    driver: Driver, cluster: str, host: Host, *, seen: ClusterState | None = None, reporter: Reporter
) -> None:
    """Have nodes that were not replaced after all go on as they were, as where a run was killed before."""
    if not _left(seen or observe_cluster(driver, cluster)):
        return
    with host.lock(reporter):
        state = observe_cluster(driver, cluster)
        left, written = _left(state), read_replacements(state)
        for node in left:
            queue = queue_of(node, spec_of(state))
            if queue and node.status == "running" and is_down(driver, node.name, queue.service):
                go_on(driver, node.name, queue, reporter=reporter)
            forget_queue(cluster, node.name, engine=driver.name)
            _expose_again(driver, node, written.pop(node.name), reporter)
        _record(driver, state, written)


def _expose_again(driver: Driver, node: NodeState, one: Replacement, reporter: Reporter) -> None:
    """Give a new node the ports of the old one, where the run that made it was killed before."""
    for exposure in one.exposed if node.id != one.id else ():
        if exposure not in node.exposed:
            try:
                driver.expose(node.name, exposure)
            except GpuprovError as error:
                reporter.warn(f"{error.what}: {error.evidence}; {error.fix}")


def _left(state: ClusterState) -> list[NodeState]:
    """The nodes that are there, and that are written down as being replaced: the old ones, or the new ones."""
    written = read_replacements(state)
    return [node for node in state.nodes if node.complete and node.name in written]


def refuse_lost_queue(driver: Driver, state: ClusterState, names: Sequence[str]) -> None:
    """Refuse to remove nodes whose queue has gone on since it was kept, or was not kept. The lock is held.

    Raises:
        EngineError: Somebody started the service again, or something else replaced the node.
    """
    written = read_replacements(state)
    for node in (node for node in state.nodes if node.name in names):
        queue = queue_of(node, spec_of(state))
        one = written.get(node.name)
        if one is None or one.id != node.id:
            raise _meanwhile(node.name, "it is not the node that was to be replaced")
        if queue and one.queue == "kept" and not is_down(driver, node.name, queue.service):
            raise _meanwhile(node.name, f"{queue.service} was started again after its queue was kept")
        if (
            queue
            and one.queue == "kept"
            and not (kept := queue_file(state.name, node.name, engine=driver.name)).is_file()
        ):
            raise _meanwhile(node.name, f"{kept}, which has its queue, is gone")


def _meanwhile(name: str, evidence: str) -> EngineError:
    return EngineError(
        f"{name} is not replaced: another run changed it meanwhile",
        evidence=evidence,
        fix="run the same command again",
    )


def arrivals_of(driver: Driver, name: str, written: Mapping[str, Replacement], spec: ClusterSpec) -> tuple[File, ...]:
    """The files by which a new node gets the queue of the one that it replaces; none for most nodes.

    Raises:
        UsageError: Another user has that queue, or it is gone.
    """
    one = written.get(name)
    queue = queue_of(ghost_of(one), spec) if one and one.queue == "kept" else None
    if one is None or queue is None:
        return ()
    path = queue_file(spec.name, name, engine=driver.name)
    return arrival_files(path, spec.name, name, queue, keeper=one.keeper)


def end_replacing(driver: Driver, state: ClusterState, replaced: Collection[str]) -> None:
    """All nodes are there and ready: forget what was written down, and the queues that were kept. The lock is held.

    What another run is about to replace stays written down.

    Args:
        driver: The engine.
        state: The cluster as it was before.
        replaced: The nodes of it that this run has replaced.
    """
    others = {node.name for node in _left(state) if node.name not in replaced}
    forget_replaced(driver, [state], [name for name in read_replacements(state) if name not in others])


def forget_replaced(driver: Driver, states: Iterable[ClusterState], names: Collection[str]) -> None:
    """Forget what was written down of these nodes, which else would be made again. The lock is held."""
    for state in states:
        written = read_replacements(state)
        for name in (name for name, one in written.items() if name in names and one.queue != "none"):
            forget_queue(state.name, name, engine=driver.name)
        _record(driver, state, {name: one for name, one in written.items() if name not in names})
