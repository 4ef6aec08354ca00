"""What nobody has changed shows what was asked for; what somebody changed shows, and can be put right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.execution import run
from gpuprov.drivers.base import LABEL_CLUSTER, File
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.shapes.base import changed
from tests.contract.engines import CLUSTER, PROCESS, Bench, bridge, ipv4, make_network

if TYPE_CHECKING:
    from gpuprov.drivers.base import Driver, NodeState

GIB = 1 << 30


def find(driver: Driver, name: str) -> NodeState:
    state = driver.find_node(name)
    assert state is not None
    return state


def test_a_node_shows_the_settings_of_its_request(bench: Bench) -> None:
    request = replace(bench.request(), memory_bytes=GIB)
    bench.driver.create_node(request)
    wanted = bench.driver.settings(request)
    assert wanted
    assert find(bench.driver, request.name).settings == wanted
    bench.driver.start_node(request.name)
    assert find(bench.driver, request.name).settings == wanted
    assert next(node for node in bench.driver.list_nodes() if node.name == request.name).settings == wanted


def test_other_settings_are_seen_and_put_right_and_the_node_runs(bench: Bench) -> None:
    request = replace(bench.request(), memory_bytes=GIB)
    bench.driver.create_node(request)
    bench.driver.start_node(request.name)
    before = find(bench.driver, request.name)
    less = replace(request, memory_bytes=GIB // 2)
    bench.driver.set_settings(request.name, less)
    now = find(bench.driver, request.name)
    assert now.settings == bench.driver.settings(less) != before.settings
    assert now.limits.memory_bytes == GIB // 2
    assert changed(now, id=before.id, settings=before.settings, limits=before.limits) == before
    live = "devices-live" in bench.driver.capabilities
    assert all(setting.live is live for key, setting in now.settings.items() if before.settings[key] != setting)
    bench.driver.set_settings(request.name, request)
    assert changed(find(bench.driver, request.name), id=before.id) == before  # a container gave way to another


def test_links_that_a_killed_engine_left_on_the_host_are_seen_and_go(bench: Bench) -> None:
    if bench.driver.name != "lxd":
        pytest.skip(f"{bench.driver.name} leaves none behind that bear a node's address")
    request = bench.request()
    bench.driver.create_node(request)
    bench.driver.start_node(request.name)
    before = find(bench.driver, request.name)
    links = (f"gptl{PROCESS}0", f"gptl{PROCESS}1")
    run(["ip", "link", "add", links[0], "type", "veth", "peer", "name", links[1]], timeout_s=10)
    try:
        run(["ip", "link", "set", links[1], "address", request.attachments[0].mac], timeout_s=10)
        assert find(bench.driver, request.name).settings["links left on the host"].value == links[1]
        bench.driver.set_settings(request.name, request)
        assert find(bench.driver, request.name) == before
    finally:
        run(["ip", "link", "delete", links[0]], timeout_s=10, check=False)


@pytest.mark.parametrize("address", [f"{ipv4(2, 1)}/24", None], ids=["NAT", "nodes only"])
def test_a_network_shows_the_settings_of_its_request(driver: Driver, address: str | None) -> None:
    labels = {LABEL_CLUSTER: CLUSTER}
    below = NetworkRequest(name=bridge(3), labels=labels, address=f"{ipv4(3, 1)}/24")
    request = NetworkRequest(
        name=bridge(2), labels=labels, address=address, subnet=f"{ipv4(2, 0)}/24", beside=below.name
    )
    make_network(driver, below)
    make_network(driver, request)
    try:
        (before,) = (network for network in driver.list_networks() if network.name == request.name)
        assert before.settings == driver.network_settings(request)
        driver.set_network_settings(request)
        assert before in driver.list_networks()
    finally:
        driver.delete_network(request.name)
        driver.delete_network(below.name)


def test_a_file_that_is_pushed_again_takes_its_new_mode_and_owner(bench: Bench, node: str) -> None:
    first = File(path="/opt/mode", content=b"1")
    bench.driver.push(node, [first])
    bench.driver.push(node, [replace(first, content=b"2", mode=0o400, uid=7, gid=8)])
    assert bench.driver.pull(node, first.path) == b"2"
    if bench.real:
        assert bench.sh(node, "stat -c '%a %u:%g' /opt/mode").strip() == "400 7:8"
