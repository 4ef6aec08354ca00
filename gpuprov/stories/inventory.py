"""`inventory`: the nodes of all hosts for Ansible; what does not answer is left out, with a warning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpuprov.fleet.questions.inventory import INVENTORY
from gpuprov.lifecycle.inventory import join_inventories
from gpuprov.shapes.orders import InventoryOrder

if TYPE_CHECKING:
    from gpuprov.fleet.fleet import Fleet
    from gpuprov.lifecycle.inventory import Inventory

_NO_NODES: Final = (
    "no cluster {0} with nodes is found, so the inventory is empty\n"
    "evidence: only nodes of cluster {0} are asked for\n"
    "fix: gpuprov list; then gpuprov play PLAYBOOK --cluster NAME, or --all-clusters"
)


def read_inventory(fleet: Fleet, cluster: str = "") -> Inventory:
    """The nodes of all clusters, or of one.

    Raises:
        GpuprovError: Nothing answers, neither an engine here nor a host.
    """
    told = (fleet.of_cluster(cluster) if cluster else fleet).ask(INVENTORY, InventoryOrder(cluster=cluster))
    told.require_answer()
    found = join_inventories(told.answers, fleet.name_here)
    missing = [f"the inventory is without the nodes of a host: {error}" for error in told.failed.values()]
    none = [_NO_NODES.format(cluster)] if cluster and not found.hosts else []
    return replace(found, warnings=(*missing, *found.warnings, *none))
