"""Which engine a verb is about when the user does not say: all engines of the host are asked, side by side."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gpuprov.cluster.built_images import match_images
from gpuprov.cluster.find_node import absent_nodes, find_runs_named
from gpuprov.cluster.state import observe_cluster
from gpuprov.core.errors import EngineError, NoEngine, NotAllowed, UsageError
from gpuprov.drivers.base import LABEL_CLUSTER
from gpuprov.machine.survey import survey
from gpuprov.shapes.choices import ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpuprov.cluster.state import ClusterState
    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.machine.base import Host
    from gpuprov.machine.survey import EngineDoor, Survey

    Words = tuple[str, str]  # what an engine has, ours and foreign; empty where it has nothing


def engine_of_nodes(
    names: Sequence[str], doors: Sequence[EngineDoor], *, reporter: Reporter, absent_too: bool = False
) -> Driver:
    """The engine that has the nodes.

    Args:
        names: The nodes.
        doors: All engines of the host.
        reporter: Is told of engines that are installed and do not answer.
        absent_too: Return the default engine where none has them: the verb looks itself.

    Raises:
        UsageError: More than one has some of them, or none has.
        EngineError: None has, and they may be on one that does not answer.
        HostNotReady: No engine answers.
    """
    listed: dict[str, tuple[Driver, Sequence[NodeState]]] = {}

    def look(driver: Driver) -> Words:
        there = driver.list_nodes()
        listed[driver.name] = (driver, there)
        found = {node.name: node for node in there if node.name in names}
        ours = [name for name in names if name in found and found[name].ours]
        runs = find_runs_named(names, [node.name for node in there if node.ours])  # of which it says where to look
        words = f"{driver.name} has {', '.join(ours or found or runs)}"
        return (words, "") if ours else ("", words) if found or runs else ("", "")

    chosen = _choose(f"node {', '.join(names)}", look, doors, reporter=reporter)
    if not absent_too and not any(node.name in names for _, there in listed.values() for node in there):
        raise absent_nodes(names, [listed[engine] for engine in ENGINES if engine in listed])
    return chosen


def open_engine_of_node(name: str, engine: str, host: Host, *, reporter: Reporter) -> Driver:
    """The engine of that name, or where that is empty, the one that has the node.

    Raises:
        UsageError: As `engine_of_nodes` says.
    """
    return host.open(engine) if engine else engine_of_nodes([name], host.engines, reporter=reporter)


def engine_of_cluster(name: str, doors: Sequence[EngineDoor], *, reporter: Reporter, creates: bool = False) -> Driver:
    """The engine that has a cluster; the default one where none has and the verb `creates` it.

    Args:
        name: The cluster.
        doors: All engines of the host.
        reporter: Is told of engines that are installed and do not answer.
        creates: Whether it is to be made where no engine has it.

    Raises:
        UsageError: More than one has a cluster of that name.
        EngineError: None has, and it may be on one that does not answer.
        HostNotReady: No engine answers.
    """

    def look(driver: Driver) -> Words:
        return (_words(driver, name) if _has(driver, cluster=name) else "", "")

    return _choose(f"cluster {name}", look, doors, reporter=reporter, creates=creates)


def observe_wherever(name: str, doors: Sequence[EngineDoor], *, reporter: Reporter) -> tuple[Driver, ClusterState]:
    """The engine that has a cluster, and the cluster's state, for which no engine is asked twice.

    Args:
        name: The cluster.
        doors: All engines of the host.
        reporter: Is told of engines that are installed and do not answer.

    Raises:
        UsageError: More than one has a cluster of that name.
        EngineError: None has, and it may be on one that does not answer.
        HostNotReady: No engine answers.
    """
    states: dict[str, ClusterState] = {}

    def look(driver: Driver) -> Words:
        state = states[driver.name] = observe_cluster(driver, name)
        return (_words(driver, name) if state.exists else "", "")

    driver = _choose(f"cluster {name}", look, doors, reporter=reporter)
    return driver, states[driver.name]


def engine_of_image(name: str, doors: Sequence[EngineDoor], *, reporter: Reporter) -> Driver:
    """The engine that has a node image of that name, or whose fingerprint begins so.

    Args:
        name: The image.
        doors: All engines of the host.
        reporter: Is told of engines that are installed and do not answer.

    Raises:
        UsageError: More than one has.
        EngineError: None has, and it may be on one that does not answer.
        HostNotReady: No engine answers.
    """

    def look(driver: Driver) -> Words:
        images = match_images(driver, name)
        return (f"{driver.name} has {', '.join(image.name for image in images)}" if images else "", "")

    return _choose(f"image {name}", look, doors, reporter=reporter)


def _choose(
    what: str,
    look: Callable[[Driver], Words],
    doors: Sequence[EngineDoor],
    *,
    reporter: Reporter,
    creates: bool = False,
) -> Driver:
    """The driver of the engine that has it; engines that are silent are named, for they may have it as well."""
    seen = survey(doors, lambda driver: (driver, look(driver)))
    ours = {engine: words for engine, (_, (words, _)) in seen.answers.items() if words}
    foreign = {engine: words for engine, (_, (_, words)) in seen.answers.items() if words}
    engine = decide_engine(what, ours or foreign, seen, creates=creates)  # what is foreign the verb itself refuses
    warn_of_silence(seen.silent, reporter)
    return seen.answers[engine][0]


def warn_of_silence(errors: Mapping[str, GpuprovError], reporter: Reporter) -> None:
    """Name the engines that are installed and do not answer: nobody knows what they have."""
    for engine, error in errors.items():
        if isinstance(error, NotAllowed):
            reporter.note(f"{engine} is omitted: {error.what}")
            continue
        reporter.warn(f"{engine} is omitted: {error.what}: {error.evidence}; fix: {error.fix}")


def find_elsewhere(name: str, doors: Sequence[EngineDoor], *, without: str) -> tuple[str, ...]:
    """Other engines that have a cluster of that name, or may have one because they are installed but do not respond.

    One to which this user has no access has none of this user's.

    Args:
        name: The cluster.
        doors: The engines of this host.
        without: The engine that is known.
    """
    seen = survey([door for door in doors if door.name != without], partial(_has, cluster=name))
    return (
        *(f"{engine} also has a cluster {name}" for engine, has in seen.answers.items() if has),
        *(
            f"{engine} may also have a cluster {name}, but cannot be queried: {error.what}"
            for engine, error in seen.silent.items()
        ),
    )


def _words(driver: Driver, cluster: str) -> str:
    return f"{driver.name} has cluster {cluster}"


def _has(driver: Driver, *, cluster: str) -> bool:
    lists = (driver.list_nodes, driver.list_networks)  # the second is asked only where the first does not tell
    return any(held.labels.get(LABEL_CLUSTER) == cluster for listed in lists for held in listed())


def decide_engine(what: str, holders: Mapping[str, str], seen: Survey[Any], *, creates: bool = False) -> str:
    """Choose one that answers from what was seen.

    Args:
        what: Completes "there is no ...".
        holders: Each engine that has it, and the words for that.
        seen: Which engines answer, and which do not and why.
        creates: Whether it is to be made where no engine has it.

    Raises:
        UsageError: More than one has it.
        EngineError: None has, and it may be on one that does not answer.
        NoEngine: It is to be made on the default engine, which is not there, and nobody has it.
        HostNotReady: No engine answers, or the default one does not and it is to be made there.
    """
    if len(holders) == 1:
        return next(iter(holders))
    if holders:
        raise UsageError(
            f"more than one engine has {what}",
            evidence="; ".join(holders.values()),
            fix=f"select one: {' or '.join(f'--engine {engine}' for engine in holders)}",
        )
    if creates:
        if seen.default not in seen.answers:
            refusal = seen.refusal_of(seen.default)
            raise refusal if seen.errors else NoEngine(refusal.what, evidence=refusal.evidence, fix=refusal.fix)
        return seen.default
    seen.require_answer()
    if not seen.errors:
        return next(engine for engine in ENGINES if engine in seen.answers)
    raise absent_beside_silence(what, seen)


def absent_beside_silence(what: str, seen: Survey[Any], *, where: str = "on the engines that respond") -> GpuprovError:
    """The error of what is on no engine that answers, while another one does not: it may be there.

    Args:
        what: Completes "there is no ...".
        seen: Which engines answer, and which do not and why.
        where: It is not there.
    """
    answering = [engine for engine in ENGINES if engine in seen.answers]
    said = {engine: f"{engine}: {error.what}: {error.evidence}" for engine, error in seen.errors.items()}
    evidence = "; ".join(said.get(engine, engine) for engine in ENGINES if engine in said or engine in answering)
    fix = next(iter((seen.silent or seen.errors).values())).fix
    single = f"; or query a single engine: --engine {answering[0]}" if answering else ""
    if not seen.silent:  # to the others this user has no access, and nothing there
        return UsageError(f"there is no {what} {where}", evidence=evidence, fix=f"{fix}{single}")
    silent = " and ".join(seen.silent)
    verb = "does" if len(seen.silent) == 1 else "do"
    why = f"{silent} {verb} not answer: there is no {what} {where}"
    return EngineError(why, evidence=evidence, fix=f"{fix}{single}")
