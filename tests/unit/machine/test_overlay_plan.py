"""What a host's end of an overlay lacks, from what `ip` and `bridge` say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpuprov.core.errors import HostNotReady, NotOurs, UsageError
from gpuprov.machine.overlay.links import OverlayLink, parse_overlay_links
from gpuprov.machine.overlay.plan import (
    OverlayRequest,
    find_underlay_mtu,
    parse_peers,
    plan_overlay,
    plan_overlay_removal,
)
from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec, NetworkSpec, OverlaySpec
from gpuprov.spec.overlay import overlay_device, unencrypted_warning, vni_of

REQUEST = OverlayRequest(
    cluster="lab", vni=77, port=4789, bridge="gpbr1", local="10.9.0.1", peers=("10.9.0.2",), mtu=1450
)
BRIDGE = OverlayLink(name="gpbr1", kind="bridge", mtu=1450, up=True)
DEVICE = OverlayLink(
    name="gpvx00004d", kind="vxlan", alias="gpuprov:lab", mtu=1450, master="gpbr1", up=True, vni=77, port=4789,
    local="10.9.0.1", apart=True,
)  # fmt: skip


APART = "ip link set dev gpvx00004d type bridge_slave isolated on"


def commands(*links: OverlayLink, request: OverlayRequest = REQUEST, peers: tuple[str, ...] = ()) -> list[str]:
    return [" ".join(step.argv) for step in plan_overlay(request, {link.name: link for link in links}, peers)]


def test_an_end_that_is_as_requested_needs_nothing() -> None:
    assert commands(BRIDGE, DEVICE, peers=("10.9.0.2",)) == []


def test_a_new_one_is_ours_before_it_is_used() -> None:
    assert commands(BRIDGE) == [
        "ip link add name gpvx00004d mtu 1450 type vxlan id 77 dstport 4789 local 10.9.0.1 learning",
        "ip link set dev gpvx00004d alias gpuprov:lab",
        "ip link set dev gpvx00004d addrgenmode none",
        "ip link set dev gpvx00004d master gpbr1",
        "ip link set dev gpvx00004d up",
        APART,
        "bridge fdb append 00:00:00:00:00:00 dev gpvx00004d dst 10.9.0.2",
    ]


def test_without_a_bridge_of_the_engine_s_one_is_made() -> None:
    own = replace(REQUEST, bridge=None)
    assert commands(request=own)[:5] == [
        "ip link add name gpvb00004d type bridge",
        "ip link set dev gpvb00004d alias gpuprov:lab",
        "ip link set dev gpvb00004d addrgenmode none",
        "ip link set dev gpvb00004d mtu 1450",
        "ip link set dev gpvb00004d up",
    ]
    half = OverlayLink(name="gpvb00004d", kind="bridge", mtu=1500)
    assert commands(half, request=own)[0] == "ip link set dev gpvb00004d alias gpuprov:lab"
    with pytest.raises(HostNotReady, match="has no bridge"):
        commands()


@pytest.mark.parametrize(
    ("found", "lacks"),
    [
        (replace(DEVICE, mtu=1500), ["ip link set dev gpvx00004d mtu 1450"]),
        (replace(DEVICE, apart=False), [APART]),
        (replace(DEVICE, master="br9"), ["ip link set dev gpvx00004d master gpbr1", APART]),
        (replace(DEVICE, up=False), ["ip link set dev gpvx00004d up"]),
    ],
)
def test_what_differs_is_set(found: OverlayLink, lacks: list[str]) -> None:
    assert commands(BRIDGE, found, peers=("10.9.0.2",)) == lacks


@pytest.mark.parametrize(
    "found",
    [
        replace(DEVICE, local="10.9.0.9"),
        replace(DEVICE, port=8472),
        replace(DEVICE, vni=78),
        OverlayLink(name="gpvx00004d", kind="vxlan", vni=77),  # killed before it had its alias
    ],
)
def test_what_cannot_be_changed_is_made_anew_with_all_its_peers(found: OverlayLink) -> None:
    assert commands(BRIDGE, found, peers=("10.9.0.2",)) == ["ip link del dev gpvx00004d", *commands(BRIDGE)]


def test_peers_are_added_and_removed() -> None:
    request = replace(REQUEST, peers=("10.9.0.2", "10.9.0.10", "10.9.0.3"))
    assert commands(BRIDGE, DEVICE, request=request, peers=("10.9.0.3", "10.9.0.7")) == [
        "bridge fdb append 00:00:00:00:00:00 dev gpvx00004d dst 10.9.0.2",
        "bridge fdb append 00:00:00:00:00:00 dev gpvx00004d dst 10.9.0.10",
        "bridge fdb del 00:00:00:00:00:00 dev gpvx00004d dst 10.9.0.7",
    ]


@pytest.mark.parametrize(
    "taken",
    [
        replace(DEVICE, alias="gpuprov:other"),
        replace(DEVICE, alias=""),
        OverlayLink(name="gpvx00004d", kind="dummy"),
        OverlayLink(name="gpvx00004d"),
    ],
)
def test_a_link_of_somebody_else_s_is_not_touched(taken: OverlayLink) -> None:
    with pytest.raises(NotOurs) as caught:
        commands(BRIDGE, taken)
    assert "network.overlay.vni" in caught.value.fix


def test_a_number_in_use_is_refused_on_the_same_port_alone() -> None:
    theirs = OverlayLink(name="vx0", kind="vxlan", vni=77, port=4789)
    with pytest.raises(UsageError, match="77 of the overlay of cluster lab is in use"):
        commands(BRIDGE, DEVICE, theirs)
    assert (
        commands(BRIDGE, DEVICE, replace(theirs, port=8472), replace(theirs, name="vx1", vni=78), peers=("10.9.0.2",))
        == []
    )


def test_a_removal_takes_what_has_the_cluster_s_alias_and_devices_first() -> None:
    own = OverlayLink(name="gpvb00004d", kind="bridge", alias="gpuprov:lab")
    other = replace(DEVICE, name="gpvx000001", alias="gpuprov:laboratory")
    old = replace(DEVICE, name="gpvx000002")  # of an earlier number
    mine = OverlayLink(name="eth0", alias="gpuprov:lab")
    links = {link.name: link for link in (own, BRIDGE, DEVICE, other, old, mine)}
    assert [step.argv[-1] for step in plan_overlay_removal("lab", links)] == ["gpvx000002", "gpvx00004d", "gpvb00004d"]
    assert plan_overlay_removal("none", links) == ()


RECORDED: list[dict[str, Any]] = [
    {"ifname": "lo", "flags": ["LOOPBACK", "UP"], "mtu": 65536},
    {"ifname": "u1", "flags": ["UP"], "mtu": 9000, "linkinfo": {"info_kind": "veth"}},
    {
        "ifname": "gpvx00004d", "flags": ["BROADCAST", "UP", "LOWER_UP"], "mtu": 1450, "master": "gpbr1",
        "ifalias": "gpuprov:lab",
        "linkinfo": {
            "info_kind": "vxlan", "info_data": {"id": 77, "local": "10.9.0.1", "port": 4789, "learning": True},
            "info_slave_kind": "bridge", "info_slave_data": {"state": "forwarding", "isolated": True},
        },
    },
]  # fmt: skip


def test_links_and_peers_are_read_as_ip_and_bridge_print_them() -> None:
    links = parse_overlay_links(json.dumps(RECORDED))
    assert links["gpvx00004d"] == DEVICE
    assert links["u1"] == OverlayLink(name="u1", kind="veth", mtu=9000, up=True)
    table = [
        {"mac": "d6:d8:92:ed:5b:70", "flags": [], "master": "gpbr1", "state": "permanent"},
        {"mac": "00:00:00:00:00:00", "dst": "10.9.0.2", "flags": ["self"], "state": "permanent"},
        {"mac": "d6:d8:92:ed:5b:71", "dst": "10.9.0.3", "flags": ["self"]},
    ]
    assert parse_peers(json.dumps(table)) == ("10.9.0.2",)
    assert (parse_peers(""), parse_overlay_links("")) == ((), {})


@pytest.mark.parametrize(
    ("routes", "mtu"),
    [
        ([[{"dst": "10.9.0.2", "dev": "u1"}]], 9000),
        ([[{"dev": "u1", "metrics": [{"mtu": 1400}]}], [{"dev": "u1"}]], 1400),
        ([[{"dev": "unknown"}]], None),
        ([], None),
    ],
)
def test_the_least_mtu_on_the_way_counts(routes: list[Any], mtu: int | None) -> None:
    links = parse_overlay_links(json.dumps(RECORDED))
    assert find_underlay_mtu([json.dumps(route) for route in routes], links) == mtu


def spec_of(name: str = "lab", hosts: int = 2, **overlay: Any) -> ClusterSpec:
    network = NetworkSpec(overlay=OverlaySpec(**overlay))
    return ClusterSpec(name=name, hosts=tuple(HostSpec(name=f"h{n}") for n in range(hosts)), network=network)


def test_the_number_follows_from_the_name_and_fits_into_24_bits() -> None:
    numbers = {vni_of(spec_of(f"lab{n}")) for n in range(1000)}
    assert len(numbers) > 990
    assert all(0 < number < 2**24 and len(overlay_device(number)) <= 15 for number in numbers)
    assert vni_of(spec_of()) == vni_of(spec_of())
    assert vni_of(spec_of(vni=5)) == 5


def test_what_is_not_encrypted_is_said_where_it_passes_between_hosts() -> None:
    assert "not encrypted" in unencrypted_warning(spec_of())
    assert unencrypted_warning(spec_of(hosts=1)) == ""
    assert unencrypted_warning(spec_of(encryption="wireguard")) == ""
    assert unencrypted_warning(spec_of(type="none")) == ""
