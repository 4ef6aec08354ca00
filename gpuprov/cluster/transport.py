"""The way Ansible's connection plugin takes into a node, here or on another host: a driver, seen as a transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.drivers.base import File

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpuprov.drivers.base import Driver
    from gpuprov.provision.transport import Transport

ENTRY = f"{__name__}:open_transport"
PRIVATE = 0o600
MOST_FETCHED_BYTES = 256_000_000  # by `ansible.builtin.fetch`, which holds it in memory
FETCH_S = 600.0
LOOK_S = 20.0


class DriverTransport:
    """Runs commands and moves files by a driver.

    Args:
        driver: Of this machine, or of another host.
        close: Lets go of what is kept of the way to that.
    """

    def __init__(self, driver: Driver, close: Callable[[], object] = lambda: None) -> None:
        self._driver, self._close = driver, close

    def run(self, node: str, argv: list[str], environment: Mapping[str, str], stdin: bytes) -> tuple[int, bytes, bytes]:
        """Run a command as root in a running node."""
        result = self._driver.run(node, argv, environment=environment, stdin=stdin)
        return result.exit_code, result.stdout.encode(), result.stderr.encode()

    def look(self, node: str, argv: list[str]) -> str:
        """What a short command prints that changes nothing."""
        return self._driver.run(node, argv, timeout_s=LOOK_S).stdout

    def put(self, node: str, path: str, content: bytes) -> None:
        """Write a file that only root of the node may read."""
        self._driver.push(node, [File(path=path, content=content, mode=PRIVATE)])

    def get(self, node: str, path: str) -> bytes:
        """Read a file of the node."""
        return self._driver.pull(node, path, most_bytes=MOST_FETCHED_BYTES, timeout_s=FETCH_S)

    def close(self) -> None:
        """Let go of what is kept for the next question, of which there may be more."""
        self._close()


def open_transport(engine: str) -> Transport:
    """What GPUPROV_OPEN_TRANSPORT names."""
    from gpuprov.drivers.registry import open_driver

    return DriverTransport(open_driver(engine))


def open_transport_to(host: str, engine: str) -> Transport:
    """For nodes of a host that `host add` has remembered.

    Raises:
        UsageError: There is no such host.
    """
    from gpuprov.cluster.nodes_elsewhere import NodesElsewhere
    from gpuprov.core.reporter import Silent
    from gpuprov.link.hosts import HostsBySsh
    from gpuprov.link.hosts_file import get_machine
    from gpuprov.link.members import MemberProcesses
    from gpuprov.link.places import ensure_places

    places = ensure_places()
    hosts = HostsBySsh(members=MemberProcesses(places), reporter=Silent())
    machine = get_machine(places.inventory, host)
    return DriverTransport(NodesElsewhere.as_driver(hosts, machine, "", engine), hosts.close)
