"""Verbs of nodes that exist: show, start, stop, rm, snapshot, restore, logs, expose, unexpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.engine import engine_option
from gpuprov.cli.options import job_options, node_argument, nodes_argument
from gpuprov.cli.tables import render_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cli.session import Session
    from gpuprov.fleet.done import Done
    from gpuprov.lifecycle.leaving import JobsPolicy
    from gpuprov.shapes.orders import Act
    from gpuprov.shapes.outcome import Changes


@command(node_argument(), engine_option)
def show(session: Session, node: str) -> Result:
    """Show all details of a node: labels, addresses, devices, mounts, ports, snapshots."""
    from gpuprov.fleet.questions.one_node import SHOW
    from gpuprov.fleet.where import ask_where_it_is
    from gpuprov.shapes.orders import ShowOrder

    shown = ask_where_it_is(session.fleet, SHOW, ShowOrder(node=node, engine=session.engine or ""))
    state = shown.node
    lines = [f"{state.name}  {state.status}{'  privileged' if state.privileged else ''}"]
    fields = [("limits", state.limits.words)]
    fields += [("address", f"{interface} {address}") for interface, address in sorted(state.addresses.items())]
    fields += [("device", f"{device.path} {device.major}:{device.minor}") for device in state.devices]
    fields += [("mount", f"{m.source} on {m.target}{' read-only' if m.read_only else ''}") for m in state.mounts]
    fields += [("port", f"{port.listen}:{port.host_port} to {port.node_port}") for port in state.exposed]
    fields += [("snapshot", name) for name in state.snapshots]
    fields += [("label", f"{key}={value}") for key, value in sorted(state.labels.items())]
    return Result(document=shown, text="\n".join([*lines, render_fields(fields, screen=session.screen)]))


@command(node_argument(), engine_option)
def logs(session: Session, node: str) -> Result:
    """Show a node's console output, such as its boot messages."""
    from gpuprov.fleet.questions.one_node import LOGS
    from gpuprov.fleet.where import ask_where_it_is
    from gpuprov.shapes.orders import LogsOrder

    told = ask_where_it_is(session.fleet, LOGS, LogsOrder(node=node, engine=session.engine or ""))
    return Result(document=told, text=told.log)


def _changing(verb: Act, text: str, *arguments: Callable[[Any], Any], ends_jobs: bool = True) -> click.Command:
    """The verb of that name, with this help; of its arguments, those besides the nodes are about what is done."""

    def act(session: Session, policy: JobsPolicy | None = None, **typed: Any) -> Done:  # noqa: ANN401 - click's own
        from gpuprov.shapes.orders import NodesOrder
        from gpuprov.stories.change_nodes import change_nodes

        order = NodesOrder(
            act=verb,
            nodes=typed.get("nodes") or (typed["node"],),
            engine=session.engine or "",
            label=typed.get("label", ""),
            force=policy is not None and policy.force,
            drain_s=policy.drain_s if policy else None,
        )
        return change_nodes(session.fleet, order)

    return command(*arguments, *((job_options,) if ends_jobs else ()), engine_option, help=text)(act)


start = _changing("start", "Start nodes, such as c000 or c[000-003].", nodes_argument(), ends_jobs=False)
stop = _changing(
    "stop",
    "Stop nodes, such as c000 or c[000-003]. Refused while jobs run there.",
    nodes_argument(),
)
rm = _changing(
    "rm",
    "Remove nodes, running or not, with all their data. Refused while jobs run there.",
    nodes_argument(),
)
snapshot = _changing(
    "snapshot",
    """Take a snapshot of a node's state.

    Docker and pools without copy-on-write pause the node during the snapshot: there it is refused while jobs run.
    """,
    node_argument(),
    node_argument("label", new=True),
)
restore = _changing(
    "restore",
    "Restore a node to a snapshot; later changes are lost. Refused while jobs run there.",
    node_argument(),
    node_argument("label"),
)


@command(
    node_argument(),
    click.argument("node_port", type=int),
    click.option("--port", type=int, help="Port of the host.  [default: the node's port]"),
    click.option(
        "--listen", metavar="ADDRESS", help="Address of the host to listen on; 0.0.0.0 for all.  [default: 127.0.0.1]"
    ),
    engine_option,
)
def expose(session: Session, node: str, node_port: int, port: int | None, listen: str | None) -> Result:
    """Forward a port of the host to a port of a node, until `unexpose` or until the node is removed.

    The host is the one that has the node. The port can be reached from the host itself, and with `--listen 0.0.0.0`
    from every machine that reaches the host.
    """
    from gpuprov.fleet.member.ports import serve_expose
    from gpuprov.fleet.where import serve_where_it_is
    from gpuprov.lifecycle.expose import check_exposure
    from gpuprov.shapes.node import LOCALLY, Exposure
    from gpuprov.shapes.orders import ExposeOrder
    from gpuprov.shapes.outcome import Changes

    exposure = Exposure(
        host_port=node_port if port is None else port, node_port=node_port, listen=LOCALLY if listen is None else listen
    )
    check_exposure(exposure)
    order = ExposeOrder(node=node, engine=session.engine or "", exposure=exposure)
    return _tell(serve_where_it_is(session.fleet, order, serve_expose, Changes))


@command(node_argument(), click.argument("port", type=int), engine_option)
def unexpose(session: Session, node: str, port: int) -> Result:
    """Stop forwarding a port of the host to a node."""
    from gpuprov.fleet.member.ports import serve_unexpose
    from gpuprov.fleet.where import serve_where_it_is
    from gpuprov.shapes.orders import UnexposeOrder
    from gpuprov.shapes.outcome import Changes

    order = UnexposeOrder(node=node, engine=session.engine or "", host_port=port)
    return _tell(serve_where_it_is(session.fleet, order, serve_unexpose, Changes))


def _tell(changes: Changes) -> Result:
    return Result(document=changes, text="\n".join(changes.changed) or "unchanged")
