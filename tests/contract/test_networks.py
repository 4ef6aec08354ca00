from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import EngineError, NotOurs
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_HOST_PORTS
from gpuprov.drivers.networks import NetworkRequest, NetworkState
from gpuprov.shapes.node import Attachment, Exposure
from gpuprov.spec.overlay import overlay_bridge
from tests.contract.engines import (
    CLUSTER,
    NAT,
    NAT_ROUTER,
    PRIVATE,
    PROCESS,
    Bench,
    bridge,
    ipv4,
    mac,
    make_network,
    refused,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpuprov.drivers.base import Driver

SPARE = NetworkRequest(name=bridge(2), labels={LABEL_CLUSTER: CLUSTER}, address=f"{ipv4(2, 1)}/24")
# A port nobody listens on: a neighbour that is there refuses at once, one that is not lets the connection hang.
KNOCK = "import socket\ntry:\n socket.create_connection(('{0}', 9), timeout=5)\nexcept OSError as e:\n print(e.errno)"
# Who answers a broadcast of ARP for an address, from one interface of one node
WHO_HAS = """
import json, socket, time
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
wire.bind(("{0}", 0))
own, asked = bytes.fromhex("{1}".replace(":", "")), socket.inet_aton("{2}")
wire.send(b"\\xff" * 6 + own + bytes.fromhex("0806 0001 0800 06 04 0001") + own + bytes(10) + asked)
told, end = set(), time.monotonic() + 1
while (left := end - time.monotonic()) > 0:
    wire.settimeout(left)
    try:
        frame = wire.recv(2048)
    except TimeoutError:
        break
    if frame[20:22] == bytes([0, 2]) and frame[28:32] == asked:
        told.add(frame[22:28].hex(":"))
print(json.dumps(sorted(told)))
"""
DIAL = KNOCK.replace("('{0}', 9)", "('{0}', {1})").replace("\nexcept", "\n print('open')\nexcept")
ECONNREFUSED, EHOSTUNREACH = "111", "113"
SERVE = "nohup python3 -m http.server --directory /opt/www {0} >/dev/null 2>&1 </dev/null &"
BUDGET_S = 15.0


@pytest.fixture
def spare(driver: Driver) -> Iterator[str]:
    make_network(driver, SPARE)
    yield SPARE.name
    driver.delete_network(SPARE.name)


def networks(driver: Driver) -> dict[str, NetworkState]:
    return {network.name: network for network in driver.list_networks()}


def interfaces(bench: Bench, name: str) -> dict[str, tuple[str, str]]:
    """Address with prefix length and MAC of each interface, as the node's kernel says."""
    links: list[dict[str, Any]] = json.loads(bench.sh(name, "ip -j address show"))
    return {
        link["ifname"]: (f"{info['local']}/{info['prefixlen']}", link["address"])
        for link in links
        for info in link["addr_info"]
        if info["family"] == "inet" and link["ifname"] != "lo"
    }


def test_networks_are_as_asked(driver: Driver, bench: Bench) -> None:
    found = networks(driver)
    assert found[NAT].address == f"{NAT_ROUTER}/24"
    assert found[PRIVATE].address is None
    for name in (NAT, PRIVATE):
        assert found[name].managed
        assert found[name].ours
        assert dict(found[name].labels) == bench.labels


def test_a_network_s_life(driver: Driver) -> None:
    make_network(driver, SPARE)
    assert SPARE.name in networks(driver)
    driver.delete_network(SPARE.name)
    assert SPARE.name not in networks(driver)
    driver.delete_network(SPARE.name)


def test_a_network_s_labels_can_be_added_to(driver: Driver, spare: str) -> None:
    text = json.dumps({"spec": 'ü "x"\n', "many": ["y" * 50] * 40})
    driver.set_network_labels(spare, {"gpuprov.spec": text})
    assert dict(networks(driver)[spare].labels) == {LABEL_CLUSTER: CLUSTER, "gpuprov.spec": text}
    assert networks(driver)[spare].address == SPARE.address


def test_a_network_s_name_is_taken(driver: Driver, spare: str) -> None:
    with refused(EngineError):
        make_network(driver, NetworkRequest(name=spare, labels={LABEL_CLUSTER: "other"}))
    assert networks(driver)[spare].labels[LABEL_CLUSTER] == CLUSTER


def test_a_network_is_completed_under_its_nodes(driver: Driver, bench: Bench) -> None:
    driver.create_network(SPARE)
    try:
        assert networks(driver)[SPARE.name].ours
        router = ipv4(2, 1)
        name = bench.create(
            start=True,
            attachments=(
                Attachment(
                    network=SPARE.name,
                    interface="eth0",
                    kind="veth",
                    address=f"{ipv4(2, 9)}/24",
                    mac=mac(2, 9),
                    gateway=router,
                ),
            ),
        )
        for _ in range(2):
            driver.complete_network(SPARE)
            (whole,) = (network for network in driver.list_networks() if network.name == SPARE.name)
            assert whole.address == SPARE.address
            assert whole.settings == driver.network_settings(SPARE)
        if bench.real:
            assert bench.python(name, KNOCK.format(router)) == ECONNREFUSED
        driver.delete_node(name)
    finally:
        driver.delete_network(SPARE.name)


def test_a_network_in_use_is_not_removed(bench: Bench, spare: str) -> None:
    nic = Attachment(
        network=spare, interface="eth0", kind="veth", address=f"{ipv4(2, 9)}/24", mac=mac(2, 9), gateway=None
    )
    name = bench.create(attachments=(nic,))
    with refused(EngineError):
        bench.driver.delete_network(spare)
    assert spare in networks(bench.driver)
    bench.driver.delete_node(name)


def rules_of(bridge: str) -> list[str]:
    """What this machine's firewall has of a bridge in our table."""
    listed = subprocess.run(["nft", "-s", "list", "ruleset"], check=True, capture_output=True, text=True).stdout
    names = (f'"{bridge}"', f"to.{bridge} ", f"from.{bridge} ")
    return [line.strip() for line in listed.splitlines() if any(name in line for name in names)]


def test_a_network_is_isolated_until_it_goes(bench: Bench, spare: str) -> None:
    driver = bench.driver

    def told() -> tuple[bool | None, bool | None]:
        network = networks(driver)[spare]
        return network.isolated, network.guarded

    assert told() == (False, False)
    for _ in range(2):
        assert driver.isolate_network(spare) == ""
        assert told() == (True, True)
    if bench.real:
        assert rules_of(spare)
        for chain, left in (("to", (False, True)), ("from", (True, False))):
            subprocess.run(["nft", "flush", "chain", "inet", "gpuprov", f"{chain}.{spare}"], check=True)
            assert told() == left
            assert driver.isolate_network(spare) == ""
            assert told() == (True, True)
    driver.delete_network(spare)
    with refused(EngineError):
        driver.isolate_network(spare)
    if bench.real:
        assert rules_of(spare) == []


def test_a_network_that_cannot_be_removed_stays_isolated(bench: Bench, spare: str) -> None:
    nic = Attachment(network=spare, interface="eth0", kind="veth", address=f"{ipv4(2, 9)}/24", mac=mac(2, 9))
    name = bench.create(attachments=(nic,))
    bench.driver.isolate_network(spare)
    with refused(EngineError):
        bench.driver.delete_network(spare)
    assert networks(bench.driver)[spare].isolated is True
    bench.driver.delete_node(name)


@pytest.mark.usefixtures("real")
def test_nodes_of_another_network_are_refused_and_the_host_is_not(bench: Bench, spare: str) -> None:
    nic = Attachment(
        network=spare,
        interface="eth0",
        kind="veth",
        address=f"{ipv4(2, 9)}/24",
        mac=mac(2, 9),
        gateway=ipv4(2, 1),
    )
    stranger, node = bench.create(attachments=(nic,), start=True), bench.create(start=True)
    state = bench.driver.find_node(node)
    assert state
    address = state.addresses["eth0"].partition("/")[0]
    bench.driver.isolate_network(NAT)
    try:
        assert bench.python(stranger, KNOCK.format(address)) == EHOSTUNREACH
        assert bench.python(stranger, KNOCK.format(NAT_ROUTER)) == ECONNREFUSED  # that is the host
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address, 9), timeout=5)
    finally:
        for chain in (f"to.{NAT}", f"from.{NAT}"):
            subprocess.run(["nft", "delete", "chain", "inet", "gpuprov", chain], check=True)
    bench.driver.delete_node(stranger)


@pytest.mark.usefixtures("real")
def test_nodes_reach_of_the_host_what_is_opened(bench: Bench, spare: str) -> None:
    """On all of its addresses: what listens everywhere is refused and counted, until its port is opened."""
    driver, router = bench.driver, ipv4(2, 1)
    nic = Attachment(
        network=spare, interface="eth0", kind="veth", address=f"{ipv4(2, 9)}/24", mac=mac(2, 9), gateway=router
    )
    node = bench.create(attachments=(nic,), start=True)
    driver.isolate_network(spare)
    with socket.create_server(("0.0.0.0", 0)) as server, socket.create_server(("0.0.0.0", 0)) as other:
        port, closed = server.getsockname()[1], other.getsockname()[1]
        for address in (router, NAT_ROUTER):
            assert bench.python(node, DIAL.format(address, port)) == EHOSTUNREACH
        assert (networks(driver)[spare].refused or 0) >= 2
        driver.set_network_labels(spare, {LABEL_HOST_PORTS: f"{port}/tcp"})
        assert (networks(driver)[spare].isolated, networks(driver)[spare].guarded) == (True, False)
        assert driver.isolate_network(spare) == ""
        assert networks(driver)[spare].guarded is True
        assert bench.python(node, DIAL.format(router, port)) == "open"
        assert bench.python(node, DIAL.format(router, closed)) == EHOSTUNREACH
    assert bench.python(node, DIAL.format(NAT_ROUTER, 53)) == EHOSTUNREACH, "the name server of another network"
    assert bench.python(node, DIAL.format(router, 53)) == ("open" if driver.name != "docker" else ECONNREFUSED)
    driver.delete_node(node)


@pytest.mark.parametrize("whole_bench", [pytest.param("docker", marks=pytest.mark.engine)], indirect=True)
def test_nodes_of_other_hosts_reach_nothing_of_this_one(bench: Bench) -> None:
    """Docker's private network is on a bridge of gpuprov's own there; a namespace is behind it as such a node is."""
    driver, under, far = bench.driver, overlay_bridge(0xFFFF00 + PROCESS), bridge(7)
    request = NetworkRequest(name=bridge(3), labels={LABEL_CLUSTER: CLUSTER}, subnet=f"{ipv4(3, 0)}/24", beside=under)
    knock = f"import socket; socket.socket(2, 2).sendto(b'x', ('{NAT_ROUTER}', 9))"
    by_hand = (
        f"ip link add {under} type bridge && ip link set {under} up && ip netns add {far}"
        f" && ip link add {far} master {under} up type veth peer name eth1 netns {far}"
        f" && ip -n {far} address add {ipv4(3, 9)}/24 dev eth1 && ip -n {far} link set eth1 up"
        f" && ip -n {far} route add {NAT_ROUTER} dev eth1"
    )
    remove = f"ip netns del {far}; ip link del {far}; ip link del {under}"

    def told() -> NetworkState:
        return networks(driver)[request.name]

    try:
        subprocess.run(["sh", "-c", by_hand], check=True)
        driver.create_network(request)
        assert (told().isolated, told().guarded) == (False, False)
        assert driver.isolate_network(request.name) == ""
        assert (told().isolated, told().guarded, told().refused) == (True, True, 0)
        subprocess.run(["ip", "netns", "exec", far, "python3", "-c", knock], check=True)
        assert told().refused == 1
    finally:
        driver.delete_network(request.name)
        subprocess.run(["sh", "-c", remove], check=False, capture_output=True)
    assert rules_of(under) == []


def test_an_absent_network_has_no_labels(driver: Driver) -> None:
    with refused(EngineError):
        driver.set_network_labels(bridge(8), {"gpuprov.x": "1"})


def test_a_foreign_network_is_left_alone(driver: Driver, foreign_network: str) -> None:
    assert not networks(driver)[foreign_network].ours
    with refused(NotOurs):
        driver.delete_network(foreign_network)
    with refused(NotOurs):
        driver.set_network_labels(foreign_network, {LABEL_CLUSTER: CLUSTER})
    with refused(NotOurs):
        driver.isolate_network(foreign_network)
    with refused(EngineError):
        make_network(driver, NetworkRequest(name=foreign_network, labels={LABEL_CLUSTER: CLUSTER}))


def test_a_node_on_a_network_that_is_not_there(bench: Bench) -> None:
    nic = Attachment(
        network=bridge(8), interface="eth0", kind="veth", address=f"{ipv4(8, 9)}/24", mac=mac(8, 9), gateway=None
    )
    request = bench.request(attachments=(nic,))
    with refused(EngineError):
        bench.driver.create_node(request)
        bench.driver.start_node(request.name)


@pytest.mark.parametrize("interface", ["eth0", "eth1"])
def test_addresses_are_known_while_a_node_is_stopped(bench: Bench, interface: str) -> None:
    request = bench.request()
    wanted = {nic.interface: nic.address for nic in request.attachments}
    one = next(nic for nic in request.attachments if nic.interface == interface)
    for attachments, addresses in ((request.attachments, wanted), ((one,), {interface: one.address})):
        name = bench.create(attachments=attachments)
        state = bench.driver.find_node(name)
        assert state
        assert dict(state.addresses) == addresses
        listed = next(node for node in bench.driver.list_nodes() if node.name == name)
        assert listed.addresses == state.addresses


@pytest.mark.usefixtures("real")
def test_addresses_and_macs_survive_a_restart(bench: Bench) -> None:
    request = bench.request()
    wanted = {nic.interface: (nic.address, nic.mac) for nic in request.attachments}
    bench.driver.create_node(request)
    seen = []
    for _ in range(2):
        bench.driver.start_node(request.name)
        seen.append(interfaces(bench, request.name))
        assert {name: address for name, (address, _) in seen[-1].items()} == {
            name: address for name, (address, _) in wanted.items()
        }
        # A Docker before API 1.44 derives the second interface's MAC from its address.
        assert seen[-1]["eth0"] == wanted["eth0"]
        assert seen[-1] in (seen[0], wanted)
        route = json.loads(bench.sh(request.name, "ip -j route show default"))[0]
        assert (route["gateway"], route["dev"]) == (NAT_ROUTER, "eth0")
        bench.driver.stop_node(request.name, timeout_s=0)


@pytest.mark.usefixtures("real")
def test_nodes_reach_each_other_on_both_networks_and_the_host_on_one(bench: Bench) -> None:
    one, other = bench.create(start=True), bench.create(start=True)
    state = bench.driver.find_node(other)
    assert state
    for address in (*state.addresses.values(), f"{NAT_ROUTER}/24"):
        assert bench.python(one, KNOCK.format(address.partition("/")[0])) == ECONNREFUSED
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((state.addresses["eth0"].partition("/")[0], 9), timeout=5)


@pytest.mark.usefixtures("real")
def test_one_interface_of_a_node_answers_for_an_address(bench: Bench) -> None:
    one, other = bench.create(start=True), bench.create(start=True)
    here, there = interfaces(bench, one), interfaces(bench, other)
    for name in ("eth0", "eth1"):
        (address, mac_there), mac_here = there[name], here[name][1]
        assert json.loads(bench.python(one, WHO_HAS.format(name, mac_here, address.partition("/")[0]))) == [mac_there]


def fetch(port: int) -> bytes | None:
    """What the page /hello at a port of this machine holds; None while nobody answers."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"GET /hello HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return None
    return answer.partition(b"\r\n\r\n")[2] or None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def exposable(bench: Bench) -> str:
    """A node that ports can be forwarded into as it is."""
    return bench.create(start="expose-live" in bench.driver.capabilities)


def test_exposing_is_seen_and_undone(bench: Bench) -> None:
    name = exposable(bench)
    forwards = {Exposure(host_port=free_port(), node_port=8080), Exposure(host_port=free_port(), node_port=8081)}
    for exposure in forwards:
        bench.driver.expose(name, exposure)
    state = bench.driver.find_node(name)
    assert state
    assert set(state.exposed) == forwards
    gone = min(forwards, key=lambda exposure: exposure.host_port)
    bench.driver.unexpose(name, gone.host_port)
    state = bench.driver.find_node(name)
    assert state
    assert set(state.exposed) == forwards - {gone}
    with refused(EngineError):
        bench.driver.unexpose(name, gone.host_port)


def test_ports_and_labels_that_are_changed_at_once_are_all_there(bench: Bench) -> None:
    """As `expose`, which does not wait for other commands, beside `cluster up`."""
    name = exposable(bench)
    gone, new = (Exposure(host_port=free_port(), node_port=port) for port in (8080, 8081))
    bench.driver.expose(name, gone)
    labels = {f"gpuprov.at-once-{number}": "written" for number in range(8)}
    with ThreadPoolExecutor() as pool:
        changes = [pool.submit(bench.driver.expose, name, new)]
        changes += [pool.submit(bench.driver.unexpose, name, gone.host_port)]
        changes += [pool.submit(bench.driver.set_labels, name, {label: value}) for label, value in labels.items()]
        for change in changes:
            change.result()
    state = bench.driver.find_node(name)
    assert state
    assert state.exposed == (new,)
    assert labels.items() <= state.labels.items()


def test_a_node_that_is_looked_for_while_a_port_is_forwarded_is_there(bench: Bench) -> None:
    name, over = exposable(bench), threading.Event()

    def look() -> int:
        looks = 0
        while not over.is_set():
            state = bench.driver.find_node(name)
            assert state
            assert state.complete
            looks += 1
        return looks

    with ThreadPoolExecutor() as pool:
        looking = pool.submit(look)
        try:
            bench.driver.expose(name, Exposure(host_port=free_port(), node_port=80))
        finally:
            over.set()
        assert looking.result() > 0


@pytest.mark.usefixtures("real")
def test_of_two_nodes_that_take_one_port_at_once_the_second_is_refused(bench: Bench) -> None:
    """Each has seen that it is free."""
    names, port = [exposable(bench), exposable(bench)], free_port()
    with ThreadPoolExecutor() as pool:
        tried = [
            pool.submit(bench.driver.expose, name, Exposure(host_port=port, node_port=80 + number))
            for number, name in enumerate(names)
        ]
        said = [str(one.exception() or "") for one in tried]
    assert sorted(map(bool, said)) == [False, True]
    states = [bench.driver.find_node(name) for name in names]
    assert [len(state.exposed) for state in states if state] == [int(not words) for words in said]


@pytest.mark.usefixtures("real")
def test_an_exposed_port_leads_into_the_node_and_outlives_a_restart(bench: Bench) -> None:
    bench.need("expose-live")
    name, port = bench.create(start=True), free_port()
    bench.sh(name, f"mkdir -p /opt/www && echo from {name} > /opt/www/hello")
    bench.driver.expose(name, Exposure(host_port=port, node_port=8080))
    for _ in range(2):
        bench.sh(name, SERVE.format(8080))
        deadline = time.monotonic() + BUDGET_S
        while fetch(port) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert fetch(port) == f"from {name}\n".encode()
        bench.driver.stop_node(name, timeout_s=0)
        assert fetch(port) is None
        bench.driver.start_node(name)
    bench.sh(name, SERVE.format(8080))
    bench.driver.unexpose(name, port)
    assert fetch(port) is None


@pytest.mark.usefixtures("real")
def test_a_port_of_the_host_that_is_in_use_is_refused(bench: Bench) -> None:
    bench.need("expose-live")
    name = bench.create(start=True)
    with socket.create_server(("0.0.0.0", 0)) as server, refused(EngineError):
        bench.driver.expose(name, Exposure(host_port=server.getsockname()[1], node_port=80))
    state = bench.driver.find_node(name)
    assert state
    assert state.exposed == ()


@pytest.mark.usefixtures("real")
def test_the_private_network_is_a_bridge_of_the_host_where_the_engine_says_so(driver: Driver) -> None:
    assert Path("/sys/class/net", PRIVATE, "bridge").is_dir() == ("private-bridge" in driver.capabilities)


@pytest.mark.usefixtures("real")
def test_a_network_that_lost_its_link_leaves_nothing_behind(bench: Bench) -> None:
    for _ in range(2):  # what the first has left would stand in the way of the second
        make_network(bench.driver, SPARE)
        subprocess.run(["ip", "link", "delete", SPARE.name], check=True)
        bench.driver.delete_network(SPARE.name)
        assert SPARE.name not in networks(bench.driver)
