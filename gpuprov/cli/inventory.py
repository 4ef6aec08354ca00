"""`gpuprov inventory`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.lifecycle.inventory import Inventory
    from gpuprov.shapes.inventory import HostVariables


@click.command()
@click.option(
    "--list", "wanted", flag_value="list", default=True, help="Print all groups and hosts as JSON; the default."
)
@click.option("--graph", "wanted", flag_value="graph", help="Print groups and their hosts as a tree.")
@click.option("--host", metavar="NODE", help="Print the variables of one host as JSON.")
@click.pass_obj
def command(session: Session, wanted: str, host: str | None) -> None:
    """Print the nodes of all engines and hosts as an Ansible inventory; also works as an inventory script."""
    from gpuprov.cli.open_fleet import open_fleet
    from gpuprov.lifecycle.inventory import render_graph, render_script, tell_script
    from gpuprov.shapes.base import write
    from gpuprov.shapes.inventory import InventoryDocument
    from gpuprov.stories.inventory import read_inventory

    inventory = read_inventory(open_fleet(session))
    for warning in inventory.warnings:
        session.reporter.warn(warning)
    if host is not None:
        variables = _host(inventory, host)
        session.show(InventoryDocument(host=variables), json.dumps(write(variables), indent=2))
    elif wanted == "graph":
        session.show(InventoryDocument(groups=inventory.groups), render_graph(inventory))
    else:
        session.show(
            InventoryDocument(inventory=tell_script(inventory)), json.dumps(render_script(inventory), indent=2)
        )


def _host(inventory: Inventory, name: str) -> HostVariables:
    if name not in inventory.hosts:
        from gpuprov.core.names import fold

        raise UsageError(
            f"the inventory has no host {name}",
            evidence=f"hosts: {fold(list(inventory.hosts)) or 'none'}",
            fix="gpuprov inventory --graph",
        )
    return inventory.hosts[name]
