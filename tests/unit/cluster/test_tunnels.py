"""The ends of the encrypted links between hosts."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from typing import Any

import pytest

from gpuprov.cluster import tunnels
from gpuprov.cluster.overlay_request import agree_mtu, encrypt, request_overlay
from gpuprov.cluster.tunnels import agree_tunnels, request_tunnel
from gpuprov.cluster.whole import dump_whole, parse_whole
from gpuprov.core.errors import EngineError, HostNotReady, UsageError
from gpuprov.machine.links import Link
from gpuprov.shapes.base import changed, write
from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec, NetworkSpec, OverlaySpec
from gpuprov.shapes.whole import TunnelEnd, WholeCluster
from tests.fakes.tunnels import public_key

ADDRESSES = {"hoff": "10.9.0.1", "hinton": "10.9.0.2", "bengio": "10.9.0.3"}
KEYS = {host: public_key(host) for host in ADDRESSES}


def spec_of(*hosts: str, **overlay: Any) -> ClusterSpec:
    named = tuple(HostSpec(name=name) for name in hosts or ADDRESSES)
    said = OverlaySpec(**{"vni": 77, "encryption": "wireguard", **overlay})
    return ClusterSpec(hosts=named, network=NetworkSpec(overlay=said))


def ends_of(spec: ClusterSpec, known: tuple[TunnelEnd, ...] = (), *used: str, **told: str) -> list[tuple[str, str]]:
    links = [Link(interface="eth9", network=IPv4Network(network)) for network in used]
    return [(end.host, end.address) for end in agree_tunnels(spec, known, told, links)]


def test_every_host_has_an_address_and_without_encryption_none() -> None:
    assert ends_of(spec_of()) == [("hoff", "10.0.77.1"), ("hinton", "10.0.77.2"), ("bengio", "10.0.77.3")]
    assert ends_of(spec_of(encryption="none")) == []


@pytest.mark.slow
def test_addresses_are_free_on_all_hosts_and_not_those_of_nodes() -> None:
    assert ends_of(spec_of("hoff"), (), "10.0.0.0/16")[0][1].startswith("10.158.")
    assert ends_of(spec_of("hoff", vni=5))[0][1] != "10.0.5.1", "the private subnet of nodes"
    assert ends_of(spec_of("hoff"), (), "10.0.0.0/8", "192.168.0.0/16")[0][1].startswith("172.")
    with pytest.raises(UsageError, match="no addresses are free"):
        ends_of(spec_of(), (), "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")


@pytest.mark.slow
def test_every_range_is_tried() -> None:
    ranges = set(tunnels._ranges_from(12345))
    assert len(ranges) == tunnels._RANGES == 2**16 + 2**12 + 2**8


def test_a_host_keeps_its_address_whoever_joins_and_leaves() -> None:
    known = agree_tunnels(spec_of(), (), KEYS, ())
    assert ends_of(spec_of("hinton", "lecun"), known) == [("hinton", "10.0.77.2"), ("lecun", "10.0.77.1")]


def test_a_host_that_is_away_keeps_its_key_and_one_that_lost_it_has_none() -> None:
    known = agree_tunnels(spec_of(), (), KEYS, ())
    told = {"hoff": KEYS["hoff"], "hinton": ""}
    assert [end.key for end in agree_tunnels(spec_of(), known, told, ())] == [KEYS["hoff"], "", KEYS["bengio"]]


def test_more_hosts_than_addresses_and_copies_of_a_machine_are_refused() -> None:
    with pytest.raises(UsageError, match="no addresses for 255 hosts"):
        ends_of(spec_of(*(f"h{number}" for number in range(255))))
    with pytest.raises(UsageError, match="hoff and bengio have the same key"):
        agree_tunnels(spec_of(), (), {**KEYS, "bengio": KEYS["hoff"]}, ())


def test_the_overlay_runs_inside_and_only_the_tunnel_is_on_the_network_between_hosts() -> None:
    spec = spec_of()
    ends = agree_tunnels(spec, (), {**KEYS, "bengio": ""}, ())
    tunnel = request_tunnel(spec, "hinton", ADDRESSES, ends, mtu=1370)
    overlay = request_overlay(spec, "hinton", ADDRESSES, mtu=1370, has_bridge=True)
    assert tunnel is not None
    assert overlay is not None
    inside = encrypt(overlay, tunnel)
    assert (inside.local, inside.peers, inside.mtu) == ("10.0.77.2", ("10.0.77.1",), 1370)
    assert (tunnel.reached_at, tunnel.mtu, tunnel.port, str(tunnel.interface)) == (
        "10.9.0.2",
        1420,
        51897,
        "10.0.77.2/24",
    )
    assert [(peer.key, peer.reached_at) for peer in tunnel.peers] == [(KEYS["hoff"], "10.9.0.1")], "bengio has no key"
    assert request_tunnel(spec_of(encryption="none"), "hinton", ADDRESSES, (), mtu=1370) is None
    with pytest.raises(UsageError, match="hinton has no address in the encrypted overlay"):
        request_tunnel(spec, "hinton", ADDRESSES, (), mtu=1370)


def test_it_takes_80_bytes_more_of_each_packet() -> None:
    assert agree_mtu(spec_of(), {"hoff": 1500, "hinton": 9000}) == 1370
    with pytest.raises(HostNotReady) as caught:
        agree_mtu(spec_of(mtu=1450), {"hoff": 1500})
    assert ("the overlay takes 130" in caught.value.evidence, "to 1370 or less" in caught.value.fix) == (True, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"address": "10.0.77.1; reboot"},
        {"address": ""},
        {"key": "remove"},
        {"key": KEYS["hoff"] + "\n"},
        {"key": "-" + KEYS["hoff"][1:]},
    ],
)
def test_what_a_host_says_of_ends_is_read_strictly(wrong: dict[str, str]) -> None:
    end = TunnelEnd(host="hoff", address="10.0.77.1", key=KEYS["hoff"])
    whole = WholeCluster(serial=1, tunnels=(end,))
    assert parse_whole(dump_whole(whole), source="network gpbr0") == whole
    told = {**write(whole), "tunnels": [{**write(end), **wrong}]}
    with pytest.raises(EngineError, match="cannot be read"):
        parse_whole(json.dumps(told), source="network gpbr0")


def test_a_new_key_is_a_change() -> None:
    first = WholeCluster(serial=3, tunnels=(TunnelEnd(host="hoff", address="10.0.77.1"),))
    assert first.changed_from(first).serial == 3
    keyed = changed(first, tunnels=(changed(first.tunnels[0], key=KEYS["hoff"]),))
    assert keyed.changed_from(first).serial == 4
