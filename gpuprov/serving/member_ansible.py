"""What a controller's Ansible asks of this host: its nodes, and to run a command in one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.transport import DriverTransport
from gpuprov.documents.host_inventory import tell_inventory
from gpuprov.shapes.members import Ran
from gpuprov.workflows.read_inventory import read_inventory

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.host.base import Host
    from gpuprov.shapes.inventory import HostInventory
    from gpuprov.shapes.orders import InventoryOrder, RunOrder


def serve_inventory(_order: InventoryOrder, host: Host, _reporter: Reporter) -> HostInventory:
    """The answer to `inventory`."""
    return tell_inventory(read_inventory(host))


def serve_run(order: RunOrder, host: Host, _reporter: Reporter) -> Ran:
    """The answer to `run`.

    Raises:
        GpuprovError: The node does not run, or its engine refuses.
    """
    transport = DriverTransport(host.open(order.engine))
    status, stdout, stderr = transport.run(order.node, list(order.argv), order.environment, order.stdin)
    return Ran(exit_code=status, stdout=stdout, stderr=stderr)
