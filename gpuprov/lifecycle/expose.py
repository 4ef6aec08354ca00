"""`expose` and `unexpose`: a port of the host that leads into a node."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from gpuprov.cluster.find_engine import warn_of_silence
from gpuprov.cluster.find_node import get_node, get_running
from gpuprov.core.errors import UsageError
from gpuprov.core.outcome import Outcome
from gpuprov.machine.survey import survey
from gpuprov.shapes.node import EVERYWHERE, LOCALLY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuprov.core.reporter import Reporter
    from gpuprov.drivers.base import Driver, NodeState
    from gpuprov.machine.base import Host
    from gpuprov.shapes.node import Exposure

_PORT_MAX = 65535
_UNUSED, _FEW = 10_000, 20_000  # where hosts seldom listen: 10022 for 22
_PLACES = {LOCALLY: "the host (127.0.0.1 only)", EVERYWHERE: "the host (all addresses)"}


def expose(driver: Driver, name: str, exposure: Exposure, host: Host, *, reporter: Reporter) -> Outcome:
    """Forward a port of the host into a node; no change if it is already.

    Raises:
        UsageError: There is no such port or address, or something else of the host listens there.
        NotCapable: The node runs, and the engine forwards ports into stopped nodes only.
    """
    check_exposure(exposure)
    get = get_running if "expose-live" in driver.capabilities else get_node
    if exposure in get(driver, name).exposed:
        return Outcome()
    others = survey([door for door in host.engines if door.name != driver.name], lambda other: other.list_nodes())
    warn_of_silence(others.errors, reporter)
    for engine, nodes in {driver.name: driver.list_nodes(), **others.answers}.items():
        _refuse_forwarded(exposure.host_port, nodes, engine)
    listener = host.listener(exposure.listen, exposure.host_port)
    if listener:
        free_port = exposure.host_port % _FEW + _UNUSED
        raise UsageError(
            f"port {exposure.host_port} of the host is in use",
            evidence=listener,
            fix=f"use another port of the host: gpuprov expose {name} {exposure.node_port} --port {free_port}",
        )
    with reporter.phase("expose"):
        driver.expose(name, exposure)
    where = f"port {exposure.host_port} of {_PLACES.get(exposure.listen, exposure.listen)}"
    _say_who_reaches_it(name, exposure, reporter)
    return Outcome(changed=(f"{where} is forwarded to {name}:{exposure.node_port}",))


def _refuse_forwarded(port: int, nodes: Iterable[NodeState], engine: str) -> None:
    """Refuse a port that leads into a node already, also into one that is stopped: it could not start again."""
    for node in nodes:
        if port in [taken.host_port for taken in node.exposed]:
            raise UsageError(
                f"port {port} of the host is already forwarded",
                evidence=f"{engine} forwards it to {node.name}, which is {node.status}",
                fix=f"choose another --port, or: gpuprov unexpose {node.name} {port} --engine {engine}",
            )


def check_exposure(exposure: Exposure) -> None:
    """Refuse what is no port, or no address to listen on."""
    for port in (exposure.host_port, exposure.node_port):
        if not 1 <= port <= _PORT_MAX:
            raise UsageError(f"{port} is not a port", evidence=f"allowed: 1 to {_PORT_MAX}", fix="choose another port")
    try:
        IPv4Address(exposure.listen)
    except ValueError as error:
        raise UsageError(
            f"{exposure.listen!r} is not an IPv4 address",
            evidence="--listen is the address of the host to listen on",
            fix="use 127.0.0.1 for this host only, 0.0.0.0 for all addresses, or one that `ip -4 address` shows",
        ) from error


def _say_who_reaches_it(name: str, exposure: Exposure, reporter: Reporter) -> None:
    if IPv4Address(exposure.listen).is_loopback:
        words = f"gpuprov expose {name} {exposure.node_port} --port {exposure.host_port} --listen {EVERYWHERE}"
        reporter.note(
            f"only this host can reach it; for other machines: gpuprov unexpose {name} {exposure.host_port} && {words}"
        )
    else:
        reporter.warn(f"every machine that can reach this host can now reach port {exposure.node_port} of {name}")


def unexpose(driver: Driver, name: str, host_port: int, *, reporter: Reporter) -> Outcome:
    """Undo `expose`; no change if that port does not lead to the node."""
    if host_port not in [exposure.host_port for exposure in get_node(driver, name).exposed]:
        reporter.note(f"port {host_port} of the host is not forwarded to {name}")
        return Outcome()
    with reporter.phase("unexpose"):
        driver.unexpose(name, host_port)
    return Outcome(changed=(f"port {host_port} of the host is no longer forwarded",))
