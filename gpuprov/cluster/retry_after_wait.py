"""What was found before the host lock was waited for is looked for again after it: it may be elsewhere by then."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gpuprov.cluster.find_engine import engine_of_cluster, engine_of_nodes
from gpuprov.cluster.find_node import AbsentNode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver
    from gpuprov.machine.base import Host

Found = TypeVar("Found")
Result = TypeVar("Result")


class _Moved(Exception):
    """Something else is found now."""


def act_on(
    host: Host, find: Callable[[], Found], act: Callable[[Found, Host], Result], *, key: Callable[[Found], object]
) -> Result:
    """Find something and act on it; where another run was waited for and something else is found then, start over.

    Args:
        host: The machine.
        find: Finds it; takes no lock and changes nothing.
        act: Acts on it, with the host whose lock it is to take before it changes anything.
        key: Tells whether what is found is the same.
    """
    while True:
        found = find()
        known = key(found)

        def check(known: object = known) -> None:
            if key(find()) != known:
                raise _Moved

        try:
            return act(found, host.checked(check))
        except _Moved:
            continue


def act_on_engine(host: Host, find: Callable[[], Driver], act: Callable[[Driver, Host], Result]) -> Result:
    """The same with an engine."""
    return act_on(host, find, act, key=lambda driver: driver.name)


def act_on_nodes(
    host: Host, engine: str, names: Sequence[str], act: Callable[[Driver, Host], Result], *, reporter: Reporter
) -> Result:
    """The same with nodes.

    Args:
        host: The machine.
        engine: Which has them; empty to look for it.
        names: The nodes; one that nobody has may be there after the wait.
        act: Acts on the engine that has them.
        reporter: Is told of engines that do not answer.

    Raises:
        UsageError: As `engine_of_nodes` says; a node that `act` misses is on none of the engines.
    """
    if engine:
        return act_on_engine(host, partial(host.open, engine), act)
    find = partial(engine_of_nodes, names, host.engines, reporter=reporter, absent_too=True)
    try:
        return act_on_engine(host, find, act)
    except AbsentNode as error:
        engine_of_nodes(error.nodes, host.engines, reporter=reporter)  # which names the nodes of all engines
        raise


def act_on_cluster(
    host: Host,
    engine: str,
    name: str,
    act: Callable[[Driver, Host], Result],
    *,
    reporter: Reporter,
    creates: bool = False,
) -> Result:
    """The same with a cluster; it may be there on no engine where the verb `creates` it."""
    if engine:
        return act_on_engine(host, partial(host.open, engine), act)
    find = partial(engine_of_cluster, name, host.engines, reporter=reporter, creates=creates)
    return act_on_engine(host, find, act)
