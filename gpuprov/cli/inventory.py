"""`gpuprov inventory`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from gpuprov.core.errors import UsageError

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.documents.inventory import Inventory


@click.command()
@click.option(
    "--list", "wanted", flag_value="list", default=True, help="Print all groups and hosts as JSON; the default."
)
@click.option("--graph", "wanted", flag_value="graph", help="Print groups and their hosts as a tree.")
@click.option("--host", metavar="NODE", help="Print the variables of one host as JSON.")
@click.pass_obj
def command(session: Session, wanted: str, host: str | None) -> None:
    """Print the nodes of all engines and hosts as an Ansible inventory; also works as an inventory script."""
    from gpuprov.cli.spanning import remembered_hosts, way_to_hosts
    from gpuprov.documents.inventory import render_graph, render_script, tell_script, tell_variables
    from gpuprov.shapes.inventory import InventoryDocument
    from gpuprov.spanning.inventory_over_hosts import read_whole_inventory

    inventory = read_whole_inventory(session.host, remembered_hosts(), way_to_hosts(session))
    for warning in inventory.warnings:
        session.reporter.warn(warning)
    if host is not None:
        variables = dict(_host(inventory, host))
        session.show(InventoryDocument(host=tell_variables(variables)), json.dumps(variables, indent=2))
    elif wanted == "graph":
        session.show(InventoryDocument(groups=inventory.groups), render_graph(inventory))
    else:
        script = json.dumps(render_script(inventory), indent=2)
        session.show(InventoryDocument(inventory=tell_script(inventory)), script)


def _host(inventory: Inventory, name: str) -> dict[str, object]:
    if name not in inventory.hosts:
        from gpuprov.core.names import fold

        raise UsageError(
            f"the inventory has no host {name}",
            evidence=f"hosts: {fold(list(inventory.hosts)) or 'none'}",
            fix="gpuprov inventory --graph",
        )
    return dict(inventory.hosts[name])
