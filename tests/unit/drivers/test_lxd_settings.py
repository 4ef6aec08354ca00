"""What others can change behind LXD's back, or through it, from documents as LXD lists them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.drivers.lxd import documents, links, settings
from gpuprov.drivers.lxd.family import KIN
from gpuprov.drivers.networks import NetworkRequest
from gpuprov.shapes.node import Exposure, Setting
from tests.unit.drivers.test_lxd_documents import REQUEST

if TYPE_CHECKING:
    from pathlib import Path

NETWORK = NetworkRequest(name="gpbr0", labels={"gpuprov.cluster": "lab"}, address="10.0.3.1/24")
PORT = {"type": "nic", "nictype": "bridged", "parent": "gpbr1", "name": "eth1-port"}


def listed() -> dict[str, Any]:
    """A running instance made from REQUEST, with all that comes by itself or belongs to other parts of its state."""
    rendered = documents.render_instance(REQUEST, kin=KIN["lxd"], pool="default", shift=True)
    own = {"volatile.eth0.host_name": "veth0", "volatile.eth1-port.host_name": "veth1", "image.os": "debian"}
    port = {documents.exposure_device(7000): documents.render_exposure(Exposure(host_port=7000, node_port=80))}
    return {
        "name": "c000",
        "status": "Running",
        "config": {**rendered["config"], **own, **documents.label_config({"gpuprov.cluster": "lab"})},
        "devices": {**rendered["devices"], **port},
        "profiles": [],
    }


def test_nothing_differs_on_an_instance_that_nobody_changed() -> None:
    assert settings.instance_settings(listed()) == settings.request_settings(REQUEST, KIN["lxd"])


@pytest.mark.parametrize(
    ("part", "key", "value", "live"),
    [
        ("config", "limits.memory", "1GiB", True),
        ("config", "boot.autostart", "false", True),
        ("config", "raw.lxc", "lxc.net.0.ipv4.address = 10.0.3.9/24", False),
        ("config", "security.privileged", "true", False),
        ("config", documents.ONE_ANSWER, "0", False),
        ("config", "security.nesting", "true", False),
        ("config", "environment.NVIDIA_VISIBLE_DEVICES", "none", False),
        ("devices", "eth0", {"type": "nic", "nictype": "bridged", "parent": "other", "name": "eth0"}, False),
        ("devices", "eth1-port", {**PORT, documents.APART: "false"}, False),
        ("devices", "disk", {"type": "disk", "path": "/mnt", "source": "/"}, True),
        ("devices", "fuse", {"type": "unix-char", "path": "/dev/fuse"}, True),
    ],
)
def test_a_change_shows_and_is_taken_back(part: str, key: str, value: Any, live: bool) -> None:
    document = listed()
    document[part] = {**document[part], key: value}
    wanted = settings.request_settings(REQUEST, KIN["lxd"])
    seen = settings.instance_settings(document)
    different = {name for name in {*seen, *wanted} if seen.get(name) != wanted.get(name)}
    assert different
    assert all((wanted.get(name) or seen[name]).live == live for name in different)
    assert settings.restore_settings(document, REQUEST, KIN["lxd"]) == listed()


def test_a_node_of_an_earlier_gpuprov_is_not_different() -> None:
    document = listed()
    del document["config"][documents.ONE_ANSWER]
    del document["devices"]["eth1-port"][documents.APART]
    assert settings.instance_settings(document) == settings.request_settings(REQUEST, KIN["lxd"])
    assert settings.restore_settings(document, REQUEST, KIN["lxd"]) == listed()


def test_a_profile_and_a_lost_device_show() -> None:
    document = listed()
    document["profiles"] = ["default"]
    del document["devices"]["eth1"]
    seen, wanted = settings.instance_settings(document), settings.request_settings(REQUEST, KIN["lxd"])
    assert seen["profiles"] == Setting(value="default", live=False)
    assert set(wanted) - set(seen) == {"device eth1"}
    assert settings.restore_settings(document, REQUEST, KIN["lxd"]) == listed()


def plug(folder: Path, bridge: str, link: str) -> None:
    (folder / bridge / "brif" / link).mkdir(parents=True)


def test_a_veth_that_is_no_port_of_its_bridge_is_unplugged(tmp_path: Path) -> None:
    plug(tmp_path, "gpbr0", "veth0")
    plug(tmp_path, "gpbr1", "another")
    assert links.unplugged(listed(), links=tmp_path) == ["eth1-port"]
    assert links.unplugged({**listed(), "status": "Stopped"}, links=tmp_path) == []
    seen = settings.instance_settings(listed(), unplugged=["eth1-port"])
    assert seen["eth1-port on the host"] == Setting(value="not plugged into gpbr1", live=False)


def rules(chain: str, expression: str) -> str:
    return json.dumps({"nftables": [{"metainfo": {}}, {"rule": {"chain": chain, "expr": [{expression: None}]}}]})


def test_what_the_host_lost_of_a_network(tmp_path: Path) -> None:
    config = documents.render_network(NETWORK)["config"]
    there = rules("pstrt.gpbr0", "masquerade")
    assert links.find_lost("gpbr0", config, there, links=tmp_path) == ["link"]
    (tmp_path / "gpbr0").mkdir()
    assert links.find_lost("gpbr0", config, there, links=tmp_path) == []
    for others in (rules("pstrt.gpbr7", "masquerade"), rules("pstrt.gpbr0", "accept"), '{"nftables": []}'):
        assert links.find_lost("gpbr0", config, others, links=tmp_path) == ["NAT rule"]
    assert links.find_lost("gpbr0", config, None, links=tmp_path) == []
    private = documents.render_network(replace(NETWORK, address=None))["config"]
    assert links.find_lost("gpbr0", private, '{"nftables": []}', links=tmp_path) == []


def test_a_network_that_lost_its_rule_differs() -> None:
    config = documents.render_network(NETWORK)["config"]
    wanted = settings.request_network_settings(NETWORK)
    assert settings.network_settings(config) == wanted
    assert settings.network_settings(config, lost=["NAT rule"]) != wanted
    assert settings.network_settings({**config, "ipv4.nat": "false"}) != wanted
