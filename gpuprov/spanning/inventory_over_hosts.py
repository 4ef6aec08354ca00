"""The inventory of this machine and of all hosts that `host add` has remembered; all are asked side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gpuprov.cluster.here_alone import is_here_alone
from gpuprov.core.errors import GpuprovError
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.documents.host_inventory import join_inventories, read_host_inventory
from gpuprov.documents.inventory import Inventory, of_cluster
from gpuprov.host.remote.ask import MemberRequest
from gpuprov.host.remote.several import read_each
from gpuprov.shapes.orders import InventoryOrder
from gpuprov.spanning.parts.over_hosts import QUESTION_S
from gpuprov.workflows.read_inventory import read_inventory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.host.base import Host
    from gpuprov.host.remote.hosts import Hosts
    from gpuprov.host.remote.machine import RemoteMachine

_NO_NODES: Final = (
    "no cluster {0} with nodes is found, so the inventory is empty\n"
    "evidence: only nodes of cluster {0} are asked for\n"
    "fix: gpuprov list; then gpuprov play PLAYBOOK --cluster NAME, or --all-clusters"
)


def read_whole_inventory(host: Host, known: Mapping[str, RemoteMachine], hosts: Hosts, cluster: str = "") -> Inventory:
    """The nodes of all clusters, or of one; what does not answer is left out, with a warning.

    A machine that knows hosts needs no engine itself. No host is asked for a cluster of this machine alone.

    Raises:
        GpuprovError: Nothing answers, neither an engine here nor a host.
    """
    inventory = _read(host, known, hosts, cluster)
    if not cluster or inventory.hosts:
        return inventory
    return replace(inventory, warnings=(*inventory.warnings, _NO_NODES.format(cluster)))


def _read(host: Host, known: Mapping[str, RemoteMachine], hosts: Hosts, cluster: str) -> Inventory:
    if not known or (cluster and is_here_alone(host, cluster)):
        return read_inventory(host, cluster)
    request = MemberRequest(order=InventoryOrder(), total_s=scaled_limit_s(QUESTION_S))
    others, failed = read_each(hosts.ask(dict.fromkeys(known.values(), request)), read_host_inventory)
    others = {name: of_cluster(found, cluster) for name, found in others.items()} if cluster else others
    warnings = tuple(f"the inventory is without the nodes of a host: {error}" for error in failed.values())
    here = Inventory(hosts={}, groups={}, warnings=warnings)
    if any(door.installed() for door in host.engines):
        try:
            own = read_inventory(host, cluster)
            here = Inventory(hosts=own.hosts, groups=own.groups, warnings=(*own.warnings, *warnings))
        except GpuprovError as error:
            if not others:
                raise
            here = Inventory(hosts={}, groups={}, warnings=(str(error), *warnings))
    elif not others:
        raise next(iter(failed.values()))
    return join_inventories(here, others)
