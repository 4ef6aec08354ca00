"""Which nodes are there for Ansible?"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from gpuprov.core.errors import UsageError
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_ROLE, ROLE_JOB
from gpuprov.fleet.questions.question import Question
from gpuprov.lifecycle.inventory import tell_nodes
from gpuprov.machine.survey import survey
from gpuprov.shapes.base import changed
from gpuprov.shapes.inventory import HostInventory
from gpuprov.shapes.orders import InventoryOrder

if TYPE_CHECKING:
    from gpuprov.core.errors import GpuprovError
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import NodeState
    from gpuprov.machine.base import Host


def _answer(order: InventoryOrder, host: Host, _reporter: Reporter) -> HostInventory:
    """Ask each engine for its nodes, and the host for their GPUs; two or three calls in all.

    Raises:
        UsageError: Two engines have a cluster of that name.
        GpuprovError: No engine answers.
    """
    cluster = order.cluster

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
    told = tell_nodes([*chain.from_iterable(seen.answers.values())], host.all_gpus)
    omitted = (_without(engine, error) for engine, error in seen.errors.items())
    return changed(told, warnings=(*omitted, *told.warnings))


def _is_host(node: NodeState) -> bool:
    return node.ours and node.complete and node.labels.get(LABEL_ROLE) != ROLE_JOB


def _without(engine: str, error: GpuprovError) -> str:
    return f"the inventory is without the nodes of {engine}: {error.what}\nevidence: {error.evidence}\nfix: {error.fix}"


INVENTORY: Final = Question(order=InventoryOrder, answer=HostInventory, here=_answer)
