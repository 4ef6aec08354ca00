"""`gpuprov show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gpuprov.cli.engine import engine_option
from gpuprov.cli.parameters import node_argument

if TYPE_CHECKING:
    from gpuprov.cli.session import Session


@click.command()
@node_argument()
@engine_option
@click.pass_obj
def command(session: Session, node: str, engine: str | None) -> None:
    """Show all details of a node: labels, addresses, devices, mounts, ports, snapshots."""
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.fleet.questions.one_node import SHOW
    from gpuprov.fleet.where import ask_where_it_is
    from gpuprov.shapes.orders import ShowOrder

    shown = ask_where_it_is(open_fleet(session, engine), SHOW, ShowOrder(node=node, engine=engine or ""))
    state = shown.node
    lines = [f"{state.name}  {state.status}{'  privileged' if state.privileged else ''}"]
    lines.append(f"  limits    {state.limits.words}")
    lines += [f"  address   {interface} {address}" for interface, address in sorted(state.addresses.items())]
    lines += [f"  device    {device.path} {device.major}:{device.minor}" for device in state.devices]
    lines += [f"  mount     {m.source} on {m.target}{' read-only' if m.read_only else ''}" for m in state.mounts]
    lines += [f"  port      {port.listen}:{port.host_port} to {port.node_port}" for port in state.exposed]
    lines += [f"  snapshot  {name}" for name in state.snapshots]
    lines += [f"  label     {key}={value}" for key, value in sorted(state.labels.items())]
    session.show(shown, "\n".join(lines))
