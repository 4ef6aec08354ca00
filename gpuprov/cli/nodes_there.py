"""Verbs on nodes of other hosts: which of the nodes are there, and what is shown of what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cli import spanning
from gpuprov.cli.open_fleet import open_fleet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.cli.session import Session
    from gpuprov.host.remote.machine import RemoteMachine
    from gpuprov.stories.change_nodes import NodesChange
    from gpuprov.stories.create_node import HostedNode, HostedOrder
    from gpuprov.workflows.create_node import CloneOrder


def change_there(session: Session, engine: str | None, names: Sequence[str], change: NodesChange) -> int | None:
    """Change nodes on their hosts, and show what was changed; None where all of them are this machine's.

    Raises:
        UsageError: Some are here and some on other hosts.
    """
    from gpuprov.core.errors import UsageError
    from gpuprov.core.names import fold
    from gpuprov.host.remote.several import part_error
    from gpuprov.shapes.outcome import Changes
    from gpuprov.stories.change_nodes import change_nodes_there, locate_nodes, refuse_absent

    known = spanning.remembered_hosts()
    if engine is not None or not known:
        return None
    here = open_fleet(session).find_here(names)
    others = [name for name in names if name not in here]
    if not others:
        return None
    hosts = spanning.way_to_hosts(session)
    found = locate_nodes(others, known, hosts)
    if here and found.homes:
        raise UsageError(
            f"{fold(sorted(here))} and {fold(list(found.homes))} are not on the same machine",
            evidence=f"{fold(sorted(here))} is on this machine, {fold(list(found.homes))} on "
            f"{', '.join(dict.fromkeys(found.homes.values()))}",
            fix="run two commands, one for the nodes of this machine",
        )
    if here:
        return None  # what is on no host is said by the engines here
    if change.verb != "rm":
        refuse_absent(others, found, known)
    for name in others:
        if name not in found.homes:
            session.reporter.note(f"there is no node {name}")
    done = change_nodes_there(found, change, hosts, reporter=session.reporter)
    error = part_error(done.failed, of=max(done.asked, len(done.failed)), what="hosts did not do their part")
    text = "\n".join(done.outcome.changed) or ("" if error else "unchanged")
    return spanning.show_result(session, Changes(host=session.host.name, changed=done.outcome.changed), text, error, 0)


def create_there(session: Session, order: HostedOrder, known: Mapping[str, RemoteMachine]) -> int | None:
    """Make a node in a cluster over hosts, or on the host that is said, and show it; None where neither is so."""
    from gpuprov.stories.create_node import create_over_hosts

    done = create_over_hosts(order, known, spanning.way_to_hosts(session), reporter=session.reporter)
    return None if done is None else _show_created(session, done)


def clone_there(session: Session, engine: str | None, order: CloneOrder) -> int | None:
    """Copy a node of another host, on that host; None where the node is this machine's, or nobody has added hosts."""
    from gpuprov.shapes.node_order import NodeOrder
    from gpuprov.stories.change_nodes import locate_nodes, refuse_absent
    from gpuprov.stories.create_node import HostedOrder, clone_on_host

    known = spanning.remembered_hosts() if engine is None else {}
    if not known or open_fleet(session).find_here([order.source]):
        return None
    hosts = spanning.way_to_hosts(session)
    found = locate_nodes([order.source], known, hosts)
    refuse_absent([order.source], found, known)
    seen, host = found.cluster, found.homes[order.source]
    if seen is None:  # pragma: no cover - a node that was found is of a cluster
        raise AssertionError
    source = next(row for row in seen.rows if row.name == order.source)
    copy = NodeOrder(
        name=order.name,
        cluster=source.cluster,
        address=order.address,
        role=source.role,
        source=order.source,
        gpu_mode=order.gpu_mode,
    )
    hosted = HostedOrder(node=copy, host=host)
    done = clone_on_host(hosted, seen, seen.machines[host], hosts, reporter=session.reporter)
    return _show_created(session, done)


def _show_created(session: Session, done: HostedNode) -> int:
    from gpuprov.host.remote.several import part_error
    from gpuprov.shapes.outcome import Changes

    error = part_error(done.failed, of=done.asked, what="hosts do not know the new node yet")
    text = "\n".join(done.outcome.changed) or "unchanged"
    return spanning.show_result(session, Changes(host=session.host.name, changed=done.outcome.changed), text, error, 0)
