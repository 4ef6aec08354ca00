"""Verbs of Ansible: play, inventory, example lab."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.command import Result, command
from gpuprov.cli.options import checked_cluster, new_folder_argument
from gpuprov.cli.settings import cluster_of
from gpuprov.cli.tables import render_table
from gpuprov.core.errors import UsageError
from gpuprov.shapes.choices import DEFAULT_CLUSTER

if TYPE_CHECKING:
    from gpuprov.cli.session import Session
    from gpuprov.core.outcome import Outcome
    from gpuprov.lifecycle.inventory import Inventory
    from gpuprov.provision.site import SiteResult
    from gpuprov.shapes.inventory import HostVariables

_VALUES = ("limit", "tags", "vault_password_file")


@command(
    click.argument("playbook", type=click.Path(path_type=Path)),
    click.option(
        "-i",
        "--inventory",
        "inventories",
        multiple=True,
        metavar="SOURCE",
        help="An Ansible inventory; repeatable.  [default: the nodes of the cluster]",
    ),
    click.option(
        "--cluster",
        metavar="NAME",
        callback=checked_cluster,
        help=f"Name of the cluster whose nodes are the hosts.  [default: {DEFAULT_CLUSTER}]",
    ),
    click.option("--all-clusters", is_flag=True, help="The nodes of all clusters, engines and hosts."),
    click.option("--limit", metavar="HOSTS", help="Only these hosts or groups, such as c000,c001."),
    click.option("--tags", metavar="TAGS", help="Run only tasks with these tags."),
    click.option(
        "-e", "--extra-vars", multiple=True, metavar="VARIABLES", help="key=value, JSON, or @FILE; repeatable."
    ),
    click.option("--vault-password-file", metavar="FILE", help="File with the ansible-vault password."),
    click.option("--check", is_flag=True, help="Change nothing; report what would change."),
    click.option("--diff", is_flag=True, help="Show the changes in files."),
)
def play(session: Session, /, playbook: Path, inventories: tuple[str, ...], **wanted: Any) -> Result:  # noqa: ANN401
    """Run an Ansible playbook on the nodes of a cluster, or on the hosts of any inventory.

    Exits with 5 when a host fails.
    """
    from gpuprov.provision.site import HostsFailed, tell_play
    from gpuprov.shapes.play import Play
    from gpuprov.stories.run_playbook import run_playbook

    result = run_playbook(
        playbook,
        inventories=inventories,
        cluster=_cluster(inventories, session.cluster, all_clusters=wanted["all_clusters"]),
        arguments=_arguments(wanted),
        reporter=session.reporter,
    )
    document = Play(host=session.host.name, play=tell_play(playbook, result))
    text = _table(session, result)
    return Result(document=document, text=text, error=HostsFailed(result) if result.failed else None)


@command(
    click.option(
        "--list", "wanted", flag_value="list", default=True, help="Print all groups and hosts as JSON; the default."
    ),
    click.option("--graph", "wanted", flag_value="graph", help="Print groups and their hosts as a tree."),
    click.option("--host", metavar="NODE", help="Print the variables of one host as JSON."),
)
def inventory(session: Session, wanted: str, host: str | None) -> Result:
    """Print the nodes of all engines and hosts as an Ansible inventory; also works as an inventory script."""
    from gpuprov.lifecycle.inventory import render_graph, render_script, tell_script
    from gpuprov.shapes.base import write
    from gpuprov.shapes.inventory import InventoryDocument
    from gpuprov.stories.inventory import read_inventory

    found = read_inventory(session.fleet)
    for warning in found.warnings:
        session.reporter.warn(warning)
    if host is not None:
        variables = _host(found, host)
        return Result(document=InventoryDocument(host=variables), text=json.dumps(write(variables), indent=2))
    if wanted == "graph":
        return Result(document=InventoryDocument(groups=found.groups), text=render_graph(found))
    script = json.dumps(render_script(found), indent=2)
    return Result(document=InventoryDocument(inventory=tell_script(found)), text=script)


def _host(inventory: Inventory, name: str) -> HostVariables:
    if name not in inventory.hosts:
        from gpuprov.core.names import fold

        raise UsageError(
            f"the inventory has no host {name}",
            evidence=f"hosts: {fold(list(inventory.hosts)) or 'none'}",
            fix="gpuprov inventory --graph",
        )
    return inventory.hosts[name]


def _cluster(inventories: tuple[str, ...], name: str, *, all_clusters: bool) -> str:
    """The one that is meant; empty for all.

    Raises:
        UsageError: More than one of the options says on what the playbook runs.
    """
    said = {"--inventory": bool(inventories), "--cluster": bool(name), "--all-clusters": all_clusters}
    given = [option for option, is_given in said.items() if is_given]
    if len(given) > 1:
        raise UsageError(
            f"{' and '.join(given)} exclude each other",
            evidence="each says on which hosts the playbook runs",
            fix="keep one of them; --limit picks some of its hosts",
        )
    return "" if all_clusters else name or cluster_of(os.environ) or DEFAULT_CLUSTER


def _arguments(wanted: dict[str, Any]) -> tuple[str, ...]:
    """The same as ansible-playbook takes it."""
    given = [part for name in _VALUES if wanted[name] for part in (f"--{name.replace('_', '-')}", str(wanted[name]))]
    given += [part for text in wanted["extra_vars"] for part in ("--extra-vars", text)]
    given += [f"--{name}" for name in ("check", "diff") if wanted[name]]
    return tuple(given)


def _table(session: Session, result: SiteResult) -> str:
    rows = [
        (host.stats.host, host.status, host.stats.ok, host.stats.changed, host.stats.failed, host.stats.skipped)
        for host in result.hosts
    ]
    headers = ("HOST", "STATUS", "OK", "CHANGED", "FAILED", "SKIPPED")
    return render_table(headers, rows, screen=session.screen) if rows else "no host was changed"


@command(new_folder_argument("lab"))
def write_lab(_session: Session, folder: Path) -> Outcome:
    """Write an inventory of lab hosts, its variables and a playbook into FOLDER, by default named after the example.

    FOLDER is created; if it exists, it must be empty. Its README describes how to set up the hosts over ssh with
    `gpuprov play`.
    """
    from gpuprov.stories import example

    return example.write_lab(folder)
