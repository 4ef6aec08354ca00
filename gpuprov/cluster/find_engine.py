"""Which engine a verb is about when the user does not say: every engine that answers is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from gpuprov.cluster.build_image import match_images
from gpuprov.core.errors import GpuprovError, UsageError
from gpuprov.drivers.base import LABEL_CLUSTER, Driver
from gpuprov.drivers.registry import is_installed, open_driver
from gpuprov.spec.models import ClusterSpec, Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from gpuprov.host.survey import EngineDoor

    Open = Callable[[str], Driver]
    Installed = Callable[[str], bool]

ENGINES: tuple[Engine, ...] = get_args(Engine)
DEFAULT: Engine = ClusterSpec().engine


def open_answering(open_engine: Open = open_driver) -> tuple[dict[str, Driver], dict[str, GpuprovError]]:
    """The engines that answer this user, and for each other one the reason."""
    drivers, errors = dict[str, Driver](), dict[str, GpuprovError]()
    for engine in ENGINES:
        answer = _try_to_open(engine, open_engine)
        if isinstance(answer, GpuprovError):
            errors[engine] = answer
        else:
            drivers[engine] = answer
    return drivers, errors


def _try_to_open(engine: Engine, open_engine: Open) -> Driver | GpuprovError:
    try:
        return open_engine(engine)
    except GpuprovError as error:
        return error


def _missing(errors: Iterable[str], installed: Installed) -> frozenset[str]:
    """Those of the engines that do not answer because they are not on this machine."""
    return frozenset(engine for engine in errors if not installed(engine))


def engine_of_nodes(
    names: Sequence[str], open_engine: Open = open_driver, installed: Installed = is_installed
) -> Driver:
    """The engine that has the nodes.

    Raises:
        UsageError: More than one has some of them, or none has and it may be on one that does not answer.
        HostNotReady: No engine answers.
    """
    drivers, errors = open_answering(open_engine)
    ours, foreign = dict[str, list[str]](), dict[str, list[str]]()
    for engine, driver in drivers.items():
        found = {node.name: node for node in driver.list_nodes() if node.name in names}
        ours[engine] = [name for name in names if name in found and found[name].ours]
        foreign[engine] = [name for name in names if name in found]
    holders = {engine: f"{engine} has {', '.join(held)}" for engine, held in ours.items() if held}
    if not holders:  # the verb says that it is not ours
        holders = {engine: f"{engine} has {', '.join(held)}" for engine, held in foreign.items() if held}
    engine = decide_engine(f"node {', '.join(names)}", holders, errors, _missing(errors, installed))
    return drivers[engine] if engine in drivers else open_engine(engine)


def engine_of_cluster(
    name: str, open_engine: Open = open_driver, installed: Installed = is_installed, *, creates: bool = False
) -> Driver:
    """The engine that has a cluster; the default one where none has and the verb `creates` it.

    Raises:
        UsageError: More than one has a cluster of that name, or none has and it may be on one that does not answer.
        HostNotReady: No engine answers.
    """
    drivers, errors = open_answering(open_engine)
    holders = {engine: f"{engine} has cluster {name}" for engine, driver in drivers.items() if _has(driver, name)}
    engine = decide_engine(f"cluster {name}", holders, errors, _missing(errors, installed), creates=creates)
    return drivers[engine] if engine in drivers else open_engine(engine)


def engine_of_image(name: str, open_engine: Open = open_driver, installed: Installed = is_installed) -> Driver:
    """The engine that has a node image of that name, or whose fingerprint begins so.

    Raises:
        UsageError: More than one has, or none has and it may be on one that does not answer.
        HostNotReady: No engine answers.
    """
    drivers, errors = open_answering(open_engine)
    found = {engine: match_images(driver, name) for engine, driver in drivers.items()}
    holders = {
        engine: f"{engine} has {', '.join(image.name for image in images)}"
        for engine, images in found.items()
        if images
    }
    engine = decide_engine(f"image {name}", holders, errors, _missing(errors, installed))
    return drivers[engine] if engine in drivers else open_engine(engine)


def find_elsewhere(name: str, engines: Iterable[EngineDoor], *, without: str) -> tuple[str, ...]:
    """Other engines that have a cluster of that name, or may have one because they are installed but do not respond.

    Args:
        name: The cluster.
        engines: Those of this host.
        without: The engine that is known.
    """
    found = []
    for engine in engines:
        if engine.name == without:
            continue
        try:
            if _has(engine.open(), name):
                found.append(f"{engine.name} also has a cluster {name}")
        except GpuprovError as error:
            if engine.installed():
                found.append(f"{engine.name} may also have a cluster {name}, but cannot be queried: {error.what}")
    return tuple(found)


def _has(driver: Driver, cluster: str) -> bool:
    labels = [*(network.labels for network in driver.list_networks()), *(node.labels for node in driver.list_nodes())]
    return any(held.get(LABEL_CLUSTER) == cluster for held in labels)


def decide_engine(
    what: str,
    holders: Mapping[str, str],
    errors: Mapping[str, GpuprovError],
    missing: Container[str],
    *,
    creates: bool = False,
) -> str:
    """Choose from what was seen.

    Args:
        what: Completes "there is no ...".
        holders: Each engine that has it, and the words for that.
        errors: Each engine that does not answer, and why.
        missing: Those of them that are not on this machine, so that their silence means nothing.
        creates: Whether it is to be made where no engine has it.
    """
    if len(holders) == 1:
        return next(iter(holders))
    if holders:
        raise UsageError(
            f"more than one engine has {what}",
            evidence="; ".join(holders.values()),
            fix=f"select one: {' or '.join(f'--engine {engine}' for engine in holders)}",
        )
    present = [engine for engine in ENGINES if engine not in missing]
    silent = [engine for engine in present if engine in errors]
    if creates or DEFAULT not in errors or not present:
        return DEFAULT
    if not silent or silent == present:
        return present[0]
    raise UsageError(
        f"there is no {what} on the engines that respond",
        evidence="; ".join(f"{engine}: {errors[engine].what}" if engine in errors else engine for engine in present),
        fix="list what exists: gpuprov list",
    )
