"""`start`, `stop`, `rm`, `snapshot` and `restore`, on the machine or the hosts that have the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.outcome import Outcome
from gpuprov.fleet.done import Done

if TYPE_CHECKING:
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.fleet.found_nodes import FoundNodes
    from gpuprov.shapes.orders import NodesOrder


def change_nodes(fleet: Fleet, order: NodesOrder) -> Done:
    """Find the nodes and change them; for `rm`, a node that is nowhere is no error, and is said.

    Raises:
        UsageError: There is no such node, they are not all here or all on other hosts, or a job runs on one.
        GpuprovError: The host of the node that gives work refuses, or does not answer; nothing was changed.
    """
    found = _find_elsewhere(fleet, order)
    if found is None:
        from gpuprov.fleet.member.nodes import serve_nodes

        done = serve_nodes(order, fleet.here, fleet.reporter)
        return Done(outcome=Outcome(changed=done.changed))
    from gpuprov.fleet.nodes_work import change_nodes_there

    return change_nodes_there(found, order, fleet.connect(), reporter=fleet.reporter)


def _find_elsewhere(fleet: Fleet, order: NodesOrder) -> FoundNodes | None:
    """Where they are; None where this machine has them, or has some and its engines are to say that nobody has others.

    Raises:
        UsageError: Some are here and some on other hosts.
        EngineError: One may be on an engine of this machine that does not answer.
    """
    here = fleet.find_here(order.nodes)
    others = [name for name in order.nodes if name not in here]
    if not others:
        return None
    from gpuprov.core.errors import UsageError
    from gpuprov.core.names import fold
    from gpuprov.fleet.found_nodes import locate_nodes, refuse_absent

    found = locate_nodes(others, fleet.others, fleet.connect())
    if here and found.homes:
        raise UsageError(
            f"{fold(sorted(here))} and {fold(list(found.homes))} are not on the same machine",
            evidence=f"{fold(sorted(here))} is on this machine, {fold(list(found.homes))} on "
            f"{', '.join(dict.fromkeys(found.homes.values()))}",
            fix="run two commands, one for the nodes of this machine",
        )
    if here:
        return None
    if not found.homes.keys() >= set(others):
        fleet.refuse_silence_here([name for name in others if name not in found.homes])
    if order.act != "rm":
        refuse_absent(others, found, fleet.others)
    for name in others:
        if name not in found.homes:
            fleet.reporter.note(f"there is no node {name}")
    return found
