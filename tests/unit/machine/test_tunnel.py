"""A host's end of an encrypted overlay, with a machine whose commands are answered by the test."""

from __future__ import annotations

import stat
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady, NotOurs, UsageError
from gpuprov.machine.overlay.end import ensure_overlay, preview_overlay, remove_overlay
from gpuprov.machine.overlay.plan import OverlayRequest
from gpuprov.machine.overlay.tunnel import TunnelKeys
from gpuprov.machine.overlay.tunnel_plan import TunnelPeer, TunnelRequest
from tests.fakes.tunnels import FakeMachine, public_key

if TYPE_CHECKING:
    from pathlib import Path

HINTON = TunnelPeer(key=public_key("hinton"), address="10.77.0.2", reached_at="10.9.0.2")
BENGIO = TunnelPeer(key=public_key("bengio"), address="10.77.0.3", reached_at="10.9.0.3")


class Bench:
    """A machine, its keys, and what is asked of it."""

    def __init__(self, machine: FakeMachine, folder: Path) -> None:
        self.machine, self.keys, self.key_file = machine, TunnelKeys(folder / "keys"), folder / "keys" / "lab.key"
        self.commands = {"wg", "nft", "modprobe"}
        self.peers: tuple[TunnelPeer, ...] = (HINTON,)

    def request(self) -> OverlayRequest:
        tunnel = TunnelRequest(
            cluster="lab",
            vni=77,
            vxlan_port=4789,
            key=self.keys.find("lab"),
            address="10.77.0.1",
            reached_at="10.9.0.1",
            peers=self.peers,
            mtu=1420,
        )
        peers = tuple(peer.address for peer in self.peers)
        return OverlayRequest(
            cluster="lab", vni=77, port=4789, bridge="gpbr1", local="10.77.0.1", peers=peers, mtu=1370, tunnel=tunnel
        )

    def ensure(self) -> tuple[str, ...]:
        return ensure_overlay(self.request(), self.keys)

    def up(self) -> tuple[str, ...]:
        self.keys.ensure("lab")
        return self.ensure()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(FakeMachine(), tmp_path)
    for module in ("overlay.end", "overlay.tunnel", "links"):
        monkeypatch.setattr(f"gpuprov.machine.{module}.run", made.machine.run)
    monkeypatch.setattr(
        "gpuprov.machine.overlay.tunnel.shutil.which",
        lambda name: f"/usr/bin/{name}" if name in made.commands else None,
    )
    monkeypatch.setattr("gpuprov.machine.overlay.tunnel.LOADED", tmp_path / "no module")
    return made


def test_the_first_run_makes_it_and_the_second_changes_nothing(bench: Bench) -> None:
    assert bench.up() == (
        "create link gpwg00004d (WireGuard, UDP port 51897, MTU 1420)",
        "reach host 10.9.0.2 by gpwg00004d",
        "let frames in by gpwg00004d alone",
        "set the MTU of gpbr1 to 1370",
        "create overlay gpvx00004d (VXLAN 77, MTU 1370)",
        "connect overlay gpvx00004d to bridge gpbr1",
        "reach host 10.77.0.2 by overlay gpvx00004d",
    )
    assert bench.machine.said[:8] == [
        "ip link add name gpwg00004d type wireguard",
        "ip link set dev gpwg00004d alias gpuprov:lab",
        "ip link set dev gpwg00004d addrgenmode none",
        f"wg set gpwg00004d listen-port 51897 private-key {bench.key_file}",
        f"wg set gpwg00004d peer {HINTON.key} endpoint 10.9.0.2:51897 persistent-keepalive 25 allowed-ips 10.77.0.2/32",
        "ip address add 10.77.0.1/24 dev gpwg00004d",
        "ip link set dev gpwg00004d mtu 1420",
        "ip link set dev gpwg00004d up",
    ]
    assert "local 10.77.0.1" in next(line for line in bench.machine.said if "type vxlan" in line)
    assert bench.ensure() == ()


def test_frames_that_did_not_come_through_the_tunnel_are_dropped(bench: Bench) -> None:
    bench.up()
    (line,) = (line for line in bench.machine.said if line.startswith("nft"))
    assert line.split(" ; ")[-1].split(maxsplit=5)[-1] == "udp dport 4789 @th,96,24 77 iifname != gpwg00004d drop"
    assert [line.startswith("nft") for line in bench.machine.said].index(True) < next(
        index for index, line in enumerate(bench.machine.said) if "type vxlan" in line
    ), "before anything can be received"
    bench.machine.tables.clear()
    assert bench.ensure() == ("let frames in by gpwg00004d alone",)


def test_the_private_key_is_in_a_file_of_root_s_and_in_no_command(bench: Bench) -> None:
    bench.up()
    private = bench.key_file.read_text().strip()
    assert stat.S_IMODE(bench.key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(bench.key_file.parent.stat().st_mode) == 0o700
    assert not any(private in line for line in bench.machine.said)
    assert bench.keys.ensure("lab") == bench.keys.find("lab") == public_key(private)


def test_without_a_kernel_s_wireguard_a_program_serves_the_device(bench: Bench) -> None:
    bench.machine.in_kernel = False
    with pytest.raises(HostNotReady, match="cannot encrypt") as caught:
        bench.keys.ensure("lab")
    assert caught.value.fix.startswith("sudo apt-get install --no-install-recommends wireguard-go")
    bench.commands.add("wireguard-go")
    bench.up()
    assert bench.machine.said[0] == "wireguard-go gpwg00004d"
    assert bench.ensure() == ()


@pytest.mark.parametrize(("missing", "package"), [("wg", "wireguard-tools"), ("nft", "nftables")])
def test_a_missing_command_is_refused_before_anything_is_made(bench: Bench, missing: str, package: str) -> None:
    request = replace(bench.request())
    bench.commands.remove(missing)
    with pytest.raises(HostNotReady) as caught:
        preview_overlay(request, bench.keys)
    assert (missing in caught.value.evidence, f" {package}" in caught.value.fix) == (True, True)
    assert bench.machine.said == []


def test_a_host_that_joins_and_one_that_leaves(bench: Bench) -> None:
    bench.up()
    bench.peers = (HINTON, BENGIO)
    assert bench.ensure() == ("reach host 10.9.0.3 by gpwg00004d", "reach host 10.77.0.3 by overlay gpvx00004d")
    bench.peers = (BENGIO,)
    assert bench.ensure() == (
        "remove a peer of gpwg00004d",
        "no longer reach host 10.77.0.2 by overlay gpvx00004d",
    )
    bench.peers = (replace(BENGIO, key=public_key("new")),)
    assert bench.ensure() == ("remove a peer of gpwg00004d", "reach host 10.9.0.3 by gpwg00004d")
    assert bench.ensure() == ()


def test_a_peer_that_sends_from_elsewhere_is_followed_while_it_is_heard(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.up()
    peer = bench.machine.wg["gpwg00004d"]["peers"][HINTON.key]
    peer |= {"endpoint": "10.8.0.2:51897", "heard": 1000}
    monkeypatch.setattr("gpuprov.machine.overlay.tunnel.time.time", lambda: 1100.0)
    assert bench.ensure() == ()
    monkeypatch.setattr("gpuprov.machine.overlay.tunnel.time.time", lambda: 2000.0)
    assert bench.ensure() == ("reach host 10.9.0.2 by gpwg00004d",)


def test_what_a_reboot_or_a_crash_took_is_made_again(bench: Bench) -> None:
    first = bench.up()
    for kept in (bench.machine.links, bench.machine.wg, bench.machine.addresses):
        kept.pop("gpwg00004d")
    assert bench.ensure() == first[:2], "as when wireguard-go was killed"
    del bench.machine.wg["gpwg00004d"]
    assert bench.ensure() == ("remove link gpwg00004d, which does not answer", *first[:2])
    bench.machine.links["gpwg00004d"]["mtu"] = 1500
    bench.machine.links["gpwg00004d"]["flags"] = []
    bench.machine.addresses["gpwg00004d"] = ["10.66.0.1/24"]
    assert bench.ensure() == (
        "set address 10.77.0.1 of gpwg00004d",
        "set the MTU of gpwg00004d to 1420",
        "bring up gpwg00004d",
    )


def test_down_removes_all_of_it_and_twice_nothing(bench: Bench) -> None:
    bench.up()
    assert remove_overlay("lab", bench.keys) == (
        "remove overlay gpvx00004d",
        "remove overlay gpwg00004d",
        "remove the packet filter of the overlay of cluster lab",
        "remove the key of the overlay of cluster lab",
    )
    assert (set(bench.machine.links), bench.machine.tables, bench.key_file.exists()) == ({"eth0", "gpbr1"}, {}, False)
    assert remove_overlay("lab", bench.keys) == ()


def test_an_overlay_that_is_no_longer_encrypted_keeps_nothing_of_it(bench: Bench) -> None:
    bench.up()
    plain = replace(bench.request(), tunnel=None, local="10.9.0.1", peers=("10.9.0.2",), mtu=1450)
    assert ensure_overlay(plain, bench.keys)[:2] == (
        "remove link gpwg00004d",
        "remove the packet filter of the overlay of cluster lab",
    )
    assert ensure_overlay(plain, bench.keys) == ()
    assert not bench.key_file.exists()


def test_another_number_has_another_device(bench: Bench) -> None:
    bench.up()
    request = bench.request()
    assert request.tunnel is not None
    other = replace(request, vni=78, tunnel=replace(request.tunnel, vni=78))
    assert "remove link gpwg00004d" in ensure_overlay(other, bench.keys)
    assert [name for name in bench.machine.links if name.startswith("gpwg")] == ["gpwg00004e"]


def test_what_is_taken_is_refused(bench: Bench) -> None:
    bench.keys.ensure("lab")
    bench.machine.addresses["vpn0"] = ["10.77.0.9/16"]
    with pytest.raises(UsageError, match=r"10\.77\.0\.0/24 of the overlay of cluster lab are in use") as caught:
        bench.ensure()
    assert caught.value.evidence == "10.77.0.9/16 on vpn0"
    del bench.machine.addresses["vpn0"]
    bench.machine.links["gpwg00004d"] = {"ifalias": "gpuprov:other", "linkinfo": {"info_kind": "wireguard"}, "mtu": 1}
    with pytest.raises(NotOurs, match="a link gpwg00004d that does not belong to the overlay"):
        bench.ensure()
    del bench.machine.links["gpwg00004d"]
    bench.machine.refuses = "ip link set dev gpwg00004d up"
    with pytest.raises(HostNotReady) as failed:
        bench.ensure()
    assert ("in use" in failed.value.evidence, "another network.overlay.vni" in failed.value.fix) == (True, True)


def test_a_key_that_the_others_were_not_told_is_never_used(bench: Bench) -> None:
    bench.keys.ensure("lab")
    request = bench.request()
    bench.key_file.write_text("another\n")
    with pytest.raises(HostNotReady, match="differs from the one on other hosts"):
        ensure_overlay(request, bench.keys)
    assert bench.machine.said == []
