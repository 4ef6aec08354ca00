"""The inventory of this machine and of all hosts that `host add` has remembered; all are asked side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.core.errors import GpuprovError
from gpuprov.core.silence_limit import scaled_limit_s
from gpuprov.documents.host_inventory import join_inventories, read_host_inventory
from gpuprov.documents.inventory import Inventory
from gpuprov.host.remote.ask import MemberRequest
from gpuprov.host.remote.several import read_each
from gpuprov.spanning.parts.over_hosts import QUESTION_S
from gpuprov.workflows.read_inventory import read_inventory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpuprov.host.base import Host
    from gpuprov.host.remote.hosts import Hosts
    from gpuprov.host.remote.machine import RemoteMachine


def read_whole_inventory(host: Host, known: Mapping[str, RemoteMachine], hosts: Hosts) -> Inventory:
    """The nodes of all clusters; what does not answer is left out, with a warning.

    A machine that knows hosts needs no engine itself.

    Raises:
        GpuprovError: Nothing answers, neither an engine here nor a host.
    """
    if not known:
        return read_inventory(host)
    request = MemberRequest(verb="inventory", document={}, total_s=scaled_limit_s(QUESTION_S))
    others, failed = read_each(hosts.ask(dict.fromkeys(known.values(), request)), read_host_inventory)
    warnings = tuple(f"the inventory is without the nodes of a host: {error}" for error in failed.values())
    here = Inventory(hosts={}, groups={}, warnings=warnings)
    if any(door.installed() for door in host.engines):
        try:
            own = read_inventory(host)
            here = Inventory(hosts=own.hosts, groups=own.groups, warnings=(*own.warnings, *warnings))
        except GpuprovError as error:
            if not others:
                raise
            here = Inventory(hosts={}, groups={}, warnings=(str(error), *warnings))
    elif not others:
        raise next(iter(failed.values()))
    return join_inventories(here, others)
