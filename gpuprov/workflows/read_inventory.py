"""`inventory`: the nodes of every engine of this host, asked side by side, as Ansible has them; holds no lock."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, starmap
from typing import TYPE_CHECKING

from gpuprov.core.errors import UsageError
from gpuprov.documents.inventory import build_inventory
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ROLE, ROLE_JOB
from gpuprov.host.survey import survey

if TYPE_CHECKING:
    from gpuprov.core.errors import GpuprovError
    from gpuprov.documents.inventory import Inventory
    from gpuprov.drivers.base import NodeState
    from gpuprov.host.base import Host


def read_inventory(host: Host, cluster: str = "") -> Inventory:
    """Ask each engine for its nodes, and the host for their GPUs; two or three calls in all.

    Args:
        host: The machine.
        cluster: Only the nodes of this one; all where it is empty.

    Raises:
        UsageError: Two engines have a cluster of that name.
        GpuprovError: No engine answers.
    """

    def wanted(node: NodeState) -> bool:
        return _is_host(node) and cluster in ("", node.labels.get(LABEL_CLUSTER))

    seen = survey(host.engines, lambda driver: [(driver.name, node) for node in driver.list_nodes() if wanted(node)])
    seen.require_answer()
    holders = [engine for engine, nodes in seen.answers.items() if nodes]
    if cluster and len(holders) > 1:
        raise UsageError(
            f"{' and '.join(holders)} each have a cluster {cluster}",
            evidence="a playbook runs on the nodes of one cluster",
            fix=f"gpuprov play PLAYBOOK --all-clusters --limit 'cluster_{cluster}:&engine_{holders[0]}'",
        )
    inventory = build_inventory([*chain.from_iterable(seen.answers.values())], host.all_gpus, host=host.name)
    return replace(inventory, warnings=(*starmap(_without, seen.errors.items()), *inventory.warnings))


def _is_host(node: NodeState) -> bool:
    return node.ours and node.complete and node.labels.get(LABEL_ROLE) != ROLE_JOB


def _without(engine: str, error: GpuprovError) -> str:
    return f"the inventory is without the nodes of {engine}: {error.what}\nevidence: {error.evidence}\nfix: {error.fix}"
