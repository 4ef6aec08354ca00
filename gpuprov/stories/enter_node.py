"""Into a node with this terminal: by the engine's own client, or by ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.cluster.find_node import get_running
from gpuprov.cluster.known_hosts import HOST_KEY, MOST_BYTES, parse_host_key, remember_host_key
from gpuprov.cluster.secrets import ensure_ssh_key, key_folder
from gpuprov.core.errors import UsageError
from gpuprov.core.execution import run_attached
from gpuprov.drivers.base import LABEL_ACCESS, LABEL_CLUSTER, File, Unreadable
from gpuprov.gpu.simulator import simulator_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.drivers.base import Driver, NodeState

_CONNECT_S = 15
_AUTHORIZED = "/root/.ssh/authorized_keys"


def reachable_address(node: NodeState) -> str:
    """The address at which this host reaches a node; it reaches none on the nodes' private network.

    Raises:
        UsageError: The node is not on the other one.
    """
    address = node.addresses.get("eth0", "").partition("/")[0]
    if not address:
        there = ", ".join(f"{interface} {held}" for interface, held in node.addresses.items()) or "none"
        raise UsageError(
            f"{node.name} has no address that this host can reach",
            evidence=f"it has no address on eth0; its addresses: {there}",
            fix=f"gpuprov shell {node.name}",
        )
    return address


def run_in_node(driver: Driver, name: str, argv: Sequence[str]) -> int:
    """Run a command with this terminal attached; returns its exit status."""
    node = get_running(driver, name)
    environment = simulator_environment(simulated=node.labels.get(LABEL_ACCESS) == "simulated")
    return driver.attach(name, list(argv), environment=environment)


def ssh_to_node(driver: Driver, name: str, argv: Sequence[str]) -> int:
    """Log in by ssh; our key is put into the node if need be, and the node's host key is read through the engine."""
    node = get_running(driver, name)
    address = reachable_address(node)
    cluster = node.labels[LABEL_CLUSTER]
    public = ensure_ssh_key(cluster)
    try:
        authorized = driver.pull(name, _AUTHORIZED)
    except Unreadable:
        authorized = b""
    if public.encode() not in authorized.splitlines():
        content = b"%b\n%b\n" % (authorized.rstrip(), public.encode())
        driver.push(name, [File(path=_AUTHORIZED, content=content.lstrip(), mode=0o600)])
    known_hosts = key_folder(cluster) / "known_hosts"
    host_key = parse_host_key(driver.pull(name, HOST_KEY, most_bytes=MOST_BYTES), name)
    remember_host_key(known_hosts, address, host_key)
    identity = key_folder(cluster) / "id_ed25519"
    options = [
        f"UserKnownHostsFile={known_hosts}",
        "StrictHostKeyChecking=yes",
        "IdentitiesOnly=yes",
        f"ConnectTimeout={_CONNECT_S}",  # also for a server that lets in and says nothing
        "LogLevel=ERROR",
    ]
    flags = [part for option in options for part in ("-o", option)]
    return run_attached(["ssh", "-i", str(identity), *flags, f"root@{address}", *argv])
