"""`expose` and `unexpose`: a port of the host that leads into a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.find_node import get_node, get_running
from gpuprov.core.errors import UsageError
from gpuprov.core.outcome import Outcome

if TYPE_CHECKING:
    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, Exposure
    from gpuprov.host.base import Host

_PORT_MAX = 65535


def expose(driver: Driver, name: str, exposure: Exposure, host: Host, *, reporter: Reporter) -> Outcome:
    """Forward a port of the host into a node; no change if it is already.

    Raises:
        NotCapable: The node runs, and the engine forwards ports into stopped nodes only.
    """
    for port in (exposure.host_port, exposure.node_port):
        if not 1 <= port <= _PORT_MAX:
            raise UsageError(f"{port} is not a port", evidence=f"allowed: 1 to {_PORT_MAX}", fix="choose another port")
    get = get_running if "expose-live" in driver.capabilities else get_node
    with host.lock(reporter):
        if exposure in get(driver, name).exposed:
            return Outcome()
        for other in driver.list_nodes():
            if exposure.host_port in [taken.host_port for taken in other.exposed]:
                raise UsageError(
                    f"port {exposure.host_port} of the host is already forwarded",
                    evidence=f"it is forwarded to {other.name}",
                    fix=f"choose another --port, or: gpuprov unexpose {other.name} {exposure.host_port}",
                )
        with reporter.phase("expose"):
            driver.expose(name, exposure)
    return Outcome(changed=(f"port {exposure.host_port} of the host is forwarded to {name}:{exposure.node_port}",))


def unexpose(driver: Driver, name: str, host_port: int, host: Host, *, reporter: Reporter) -> Outcome:
    """Undo `expose`; no change if that port does not lead to the node."""
    with host.lock(reporter):
        if host_port not in [exposure.host_port for exposure in get_node(driver, name).exposed]:
            reporter.note(f"port {host_port} of the host is not forwarded to {name}")
            return Outcome()
        with reporter.phase("unexpose"):
            driver.unexpose(name, host_port)
    return Outcome(changed=(f"port {host_port} of the host is no longer forwarded",))
