"""What a controller's Ansible has this host do: run a command in one of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.transport import DriverTransport
from gpuprov.shapes.members import Ran

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.host.base import Host
    from gpuprov.shapes.orders import RunOrder


def serve_run(order: RunOrder, host: Host, _reporter: Reporter) -> Ran:
    """The answer to `run`.

    Raises:
        GpuprovError: The node does not run, or its engine refuses.
    """
    transport = DriverTransport(host.open(order.engine))
    status, stdout, stderr = transport.run(order.node, list(order.argv), order.environment, order.stdin)
    return Ran(exit_code=status, stdout=stdout, stderr=stderr)
