"""Two networks: nodes reach each other on both, and the outside through NAT."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

LISTEN = """
import socket, sys
listener = socket.create_server((sys.argv[1], 7001))
print("ready", flush=True)
connection, (address, port) = listener.accept()
print(address)
"""
DIAL = """
import errno, json, socket, sys
def dial(place):
    try:
        socket.create_connection(tuple(place), timeout=5).close()
    except OSError as error:
        return errno.errorcode.get(error.errno, "silence")
    return "open"
print(json.dumps([dial(place) for place in json.loads(sys.argv[1])]))
"""
ASK = "import socket, sys; socket.create_connection((sys.argv[1], 7001), timeout=5).close()"
# any answer will do: a host without an outside has nobody to forward the question to
QUERY = """
import socket
server = open("/etc/resolv.conf").read().split()[1]
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(5)
question = bytes.fromhex("4711 0100 0001 0000 0000 0000 09") + b"localhost" + bytes.fromhex("00 0001 0001")
client.sendto(question, (server, 53))
print(server, client.recv(512)[:2].hex())
"""
pytestmark = pytest.mark.usefixtures("cluster")


def test_nodes_reach_each_other_by_name_on_both_networks(gpuprov: Gpuprov) -> None:
    for name, address in (("e003", "10.78.3.5"), ("e003-private", "10.78.5.4")):
        assert f"({address})" in gpuprov.in_node("e001", "ping", "-c", "1", "-W", "3", name)
    route = json.loads(gpuprov.in_node("e001", "ip", "-j", "route", "get", "10.78.5.4"))
    assert route[0]["dev"] == "eth1"


def test_the_private_network_is_the_nodes_alone(gpuprov: Gpuprov, host: Callable[..., str]) -> None:
    bridge = json.loads(host("ip", "-j", "-4", "address", "show", "gpteb1"))
    assert [entry for entry in bridge if entry.get("addr_info")] == []
    gpuprov("exec", "e001", "--", "ping", "-c", "1", "-W", "1", "-I", "eth1", "10.78.3.1", expect=1)


def test_nodes_ask_the_host_for_names(gpuprov: Gpuprov) -> None:
    assert gpuprov.in_node("e001", "python3", "-c", QUERY) == "10.78.3.1 4711\n"


@pytest.fixture
def outside(host: Callable[..., str], place: Place) -> Iterator[subprocess.Popen[str]]:
    """A machine beyond the host that has no route to the nodes, and waits for one of them to call."""
    name, here, peer = f"{place.mark}o", place.address(3, 1), place.address(3, 2)
    host("ip", "netns", "add", name)
    try:
        host("ip", "link", "add", f"{name}0", "type", "veth", "peer", "name", f"{name}1", "netns", name)
        host("ip", "address", "add", f"{here}/30", "dev", f"{name}0")
        host("ip", "link", "set", f"{name}0", "up")
        host("ip", "-n", name, "address", "add", f"{peer}/30", "dev", f"{name}1")
        host("ip", "-n", name, "link", "set", f"{name}1", "up")
        argv = ["ip", "netns", "exec", name, "python3", "-c", LISTEN, peer]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as listener:
            try:
                assert listener.stdout
                assert listener.stdout.readline() == "ready\n"
                yield listener
            finally:
                listener.kill()
    finally:
        host("ip", "netns", "delete", name)  # takes both ends of the veth with it


def test_nodes_reach_the_outside_as_the_host(gpuprov: Gpuprov, place: Place, outside: subprocess.Popen[str]) -> None:
    gpuprov.in_node("e001", "python3", "-c", ASK, place.address(3, 2))
    assert outside.stdout
    # the host's address there: the node's own has no way back
    assert outside.stdout.readline() == f"{place.address(3, 1)}\n"


@pytest.fixture(params=["lxd", "docker"])
def neighbour(request: pytest.FixtureRequest, gpuprov: Gpuprov, place: Place, tmp_path: Path) -> Iterator[str]:
    """The node of another cluster of this host."""
    engine = str(request.param)
    if engine == "docker":
        request.getfixturevalue("docker")
    path = tmp_path / "spec.yaml"
    path.write_text(place.spec(count=1, engine=engine, nodes="role: plain"))
    gpuprov("cluster", "up", "-f", str(path), "--no-verify")
    yield place.node(0)
    gpuprov("cluster", "down", place.cluster, "--yes", "--engine", engine)


def dial(gpuprov: Gpuprov, name: str, *places: tuple[str, int]) -> set[str]:
    """What a node is told at addresses and ports."""
    said = gpuprov.in_node(name, "python3", "-c", DIAL, json.dumps(places))
    return set(json.loads(said))


def test_clusters_of_one_host_are_isolated(
    gpuprov: Gpuprov, place: Place, neighbour: str, host: Callable[..., str]
) -> None:
    ports = [("10.78.3.2", 22), ("10.78.3.2", 6817), ("10.78.3.3", 22), ("10.78.3.3", 6818)]
    theirs = (place.address(0, 2), 22)
    assert dial(gpuprov, "e001", *ports) == {"open"}
    assert dial(gpuprov, neighbour, *ports) == {"EHOSTUNREACH"}
    assert dial(gpuprov, "e001", theirs) == {"EHOSTUNREACH"}
    for address, port in (*ports, theirs):
        socket.create_connection((address, port), timeout=5).close()
    for bridge in ("gpteb0", f"{place.mark}0"):
        host("nft", "delete", "chain", "inet", "gpuprov", f"to.{bridge}")
    doctor = gpuprov.json("doctor")["findings"]
    (finding,) = (finding for finding in doctor if finding["id"] == "isolation")
    assert (finding["status"], "gpteb0" in finding["evidence"]) == ("warn", True)
    assert dial(gpuprov, "e001", ("10.78.3.1", ports[0][1])) == {"EHOSTUNREACH"}, "the host has its own rules"
    assert dial(gpuprov, neighbour, *ports) & {"open"}, "the rules are what refuses"
    for node in ("e001", neighbour):  # it runs, and gets back what a reboot would have taken
        gpuprov("start", node)
    assert dial(gpuprov, neighbour, *ports) == {"EHOSTUNREACH"}
    assert dial(gpuprov, "e001", theirs) == {"EHOSTUNREACH"}


def test_the_outside_does_not_reach_nodes_through_the_host(
    place: Place, outside: subprocess.Popen[str], host: Callable[..., str]
) -> None:
    name = f"{place.mark}o"
    host("ip", "-n", name, "route", "add", "10.78.3.0/24", "via", place.address(3, 1))
    said = host("ip", "netns", "exec", name, "python3", "-c", DIAL, json.dumps([("10.78.3.2", 22)]))
    assert json.loads(said) == ["EHOSTUNREACH"]
    assert outside.poll() is None


def test_addresses_survive_a_restart(gpuprov: Gpuprov) -> None:
    def links() -> dict[str, tuple[str, str]]:
        found = json.loads(gpuprov.in_node("e003", "ip", "-j", "-4", "address"))
        macs = {link["ifname"]: link["address"] for link in json.loads(gpuprov.in_node("e003", "ip", "-j", "link"))}
        return {link["ifname"]: (link["addr_info"][0]["local"], macs[link["ifname"]]) for link in found}

    before = links()
    assert {before[name][0] for name in ("eth0", "eth1")} == {"10.78.3.5", "10.78.5.4"}
    gpuprov("stop", "e003")
    gpuprov("start", "e003")
    assert links() == before
