from __future__ import annotations

import re
from ipaddress import IPv4Network

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.shapes.cluster_spec import NetworkSpec
from gpuprov.shapes.limits import NODES_MAX
from gpuprov.spec.addressing import (
    capacity,
    free_number,
    gateway,
    mac,
    node_name,
    number_of_address,
    number_of_name,
    parse_address,
    private_address,
    public_address,
)

NETWORK = NetworkSpec()


@pytest.mark.parametrize(
    ("number", "name", "public", "private"),
    [
        (0, "c000", "10.0.3.2/24", "10.0.5.1/24"),
        (3, "c003", "10.0.3.5/24", "10.0.5.4/24"),
        (252, "c252", "10.0.3.254/24", "10.0.5.253/24"),
    ],
)
def test_a_number_gives_name_and_addresses_as_the_tutorial_has_them(
    number: int, name: str, public: str, private: str
) -> None:
    assert node_name("c", number) == name
    assert number_of_name(name, prefix="c") == number
    assert str(public_address(number, NETWORK)) == public
    assert str(private_address(number, NETWORK)) == private
    assert number_of_address(public_address(number, NETWORK)) == number


@pytest.mark.parametrize("name", ["c00", "c0000", "c253", "d000", "xc000", "c00a", "c000\n"])
def test_other_names_have_no_number(name: str) -> None:
    assert number_of_name(name, prefix="c") is None


def test_the_gateway_is_the_first_address() -> None:
    assert str(gateway(NETWORK)) == "10.0.3.1/24"
    assert str(gateway(NETWORK).ip) == "10.0.3.1"


@pytest.mark.parametrize("number", [253, 300, -3])
def test_a_number_beyond_the_subnet_is_refused(number: int) -> None:
    with pytest.raises(UsageError):
        public_address(number, NETWORK)


def test_a_subnet_holds_all_but_network_gateway_and_broadcast() -> None:
    assert capacity(IPv4Network("10.0.3.0/24")) == 253
    assert capacity(IPv4Network("10.0.3.0/29")) == 5
    assert capacity(IPv4Network("10.0.0.0/16")) == NODES_MAX


def test_the_highest_number_free_on_both_networks_is_found() -> None:
    assert free_number(NETWORK, {}) == NODES_MAX - 2
    assert free_number(NETWORK, {"10.0.3.253": "web", "10.0.5.251": "db"}) == NODES_MAX - 4
    found = [free_number(NETWORK, {}, host=host, hosts=3) for host in range(3)]
    assert sorted(found) == [NODES_MAX - 4, NODES_MAX - 3, NODES_MAX - 2]
    small = NetworkSpec(subnet="10.0.3.0/29")
    assert free_number(small, {"10.0.3.3": "x", "10.0.3.5": "x"}, host=1, hosts=2) == 2, "none of its own is left"
    with pytest.raises(UsageError, match="no address is free"):
        free_number(small, {f"10.0.3.{n}": "x" for n in range(2, 8)})


def test_macs_are_stable_and_locally_known() -> None:
    assert mac("lab", "c000", "eth0") == mac("lab", "c000", "eth0")
    assert re.fullmatch(r"00:16:3e(:[0-9a-f]{2}){3}", mac("lab", "web", "eth1"))


def test_the_interfaces_of_a_full_cluster_have_as_many_macs() -> None:
    for cluster in ("lab", "other"):
        macs = {mac(cluster, node_name("c", n), nic) for n in range(NODES_MAX) for nic in ("eth0", "eth1")}
        assert len(macs) == 2 * NODES_MAX


def test_macs_differ_between_clusters_and_names() -> None:
    assert len({mac("lab", "c000", "eth0"), mac("lab2", "c000", "eth0"), mac("lab", "d000", "eth0")}) == 3
    assert len({mac("lab", name, "eth0") for name in ("web", "db", "web-a", "web1", "web01", "web2")}) == 6


@pytest.mark.parametrize("text", ["10.0.3.6", "10.0.3.6/24"])
def test_an_address_is_read(text: str) -> None:
    assert str(parse_address(text, NETWORK, {"10.0.3.2": "c000"})) == "10.0.3.6/24"


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("10.0.4.6", "10.0.3.0/24"),
        ("10.0.3.6/16", "10.0.3.0/24"),
        ("10.0.3.0", "network address of 10.0.3.0/24"),
        ("10.0.3.255", "broadcast"),
        ("10.0.3.1", "gateway"),
        ("10.0.3.2", "in use by c000"),
        ("10.0.3.300", "300"),
        ("10.0.3", "10.0.3"),
        ("", ""),
        ("fd00::1", ""),
        ("10.0.3.6/x", ""),
        ("10.0.3.6/24/1", ""),
        ("10.0.3.6\n", ""),
        ("../x", ""),
    ],
)
def test_an_address_that_cannot_be_is_refused(text: str, evidence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(text, NETWORK, {"10.0.3.2": "c000"})
    assert evidence in caught.value.evidence
    assert "10.0.3.2 to 10.0.3.254" in caught.value.fix
