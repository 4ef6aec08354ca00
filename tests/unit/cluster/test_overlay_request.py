"""What each host's end of an overlay is to be."""

from __future__ import annotations

from typing import Any

import pytest

from gpuprov.cluster.overlay_request import agree_mtu, request_overlay, underlay_address
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.machine.overlay.plan import OverlayRequest
from gpuprov.shapes.base import changed
from gpuprov.shapes.cluster_spec import ClusterSpec, HostSpec, NetworkSpec, OverlaySpec

ADDRESSES = {"hoff": "10.9.0.1", "hinton": "10.9.0.2", "bengio": "10.9.0.3"}
HOFF = HostSpec(name="hoff")


def spec_of(**overlay: Any) -> ClusterSpec:
    hosts = tuple(HostSpec(name=name) for name in ADDRESSES)
    return ClusterSpec(hosts=hosts, network=NetworkSpec(overlay=OverlaySpec(**overlay)))


def test_each_host_sends_to_all_others() -> None:
    spec = spec_of(vni=77, port=8472)
    assert request_overlay(spec, "hinton", ADDRESSES, mtu=1450, has_bridge=True) == OverlayRequest(
        cluster="lab", vni=77, port=8472, bridge="gpbr1", local="10.9.0.2", peers=("10.9.0.1", "10.9.0.3"), mtu=1450
    )
    own = request_overlay(spec, "hinton", ADDRESSES, mtu=1450, has_bridge=False)
    assert own is not None
    assert (own.bridge, own.parent) == (None, "gpvb00004d")
    alone = request_overlay(spec, "hoff", {"hoff": "10.9.0.1"}, mtu=1450, has_bridge=True)
    assert alone is not None
    assert alone.peers == ()


def test_a_user_s_own_connection_is_left_to_the_user_where_there_is_a_bridge() -> None:
    spec = spec_of(type="none")
    assert request_overlay(spec, "hoff", ADDRESSES, mtu=1450, has_bridge=True) is None
    with pytest.raises(UsageError, match="cannot be connected by other means on hoff"):
        request_overlay(spec, "hoff", ADDRESSES, mtu=1450, has_bridge=False)


def test_two_hosts_with_one_address_are_one_machine() -> None:
    with pytest.raises(UsageError, match="hoff and bengio of cluster lab have the same address"):
        request_overlay(spec_of(), "hoff", {**ADDRESSES, "bengio": "10.9.0.1"}, mtu=1450, has_bridge=True)


@pytest.mark.parametrize(
    ("mtu", "underlays", "agreed"), [(None, (1500, 1500), 1450), (None, (9000, 1500), 1450), (1300, (1500, 1400), 1300)]
)
def test_the_narrowest_way_decides(mtu: int | None, underlays: tuple[int, int], agreed: int) -> None:
    assert agree_mtu(spec_of(mtu=mtu), dict(zip(ADDRESSES, underlays, strict=False))) == agreed


@pytest.mark.parametrize(
    ("mtu", "underlay", "fix"), [(1450, 1499, "to 1449 or less"), (None, 1329, "to 1330 or more"), (9000, 1500, "1450")]
)
def test_an_mtu_that_does_not_fit_is_refused(mtu: int | None, underlay: int, fix: str) -> None:
    with pytest.raises(HostNotReady, match="do not fit") as caught:
        agree_mtu(spec_of(mtu=mtu), {"hoff": 1600, "hinton": underlay})
    assert f"MTU {underlay} on hinton" in caught.value.evidence
    assert fix in caught.value.fix


def test_a_host_s_address_is_the_spec_s_or_that_at_which_ssh_reached_it() -> None:
    assert underlay_address(HOFF, "192.0.2.9 51000 10.9.0.1 22") == "10.9.0.1"
    assert underlay_address(changed(HOFF, internal_ip="10.8.0.1"), "192.0.2.9 51000 10.9.0.1 22") == "10.8.0.1"
    for said in ("", "2001:db8::9 51000 2001:db8::1 22", "10.9.0.1"):
        with pytest.raises(UsageError, match="hoff on the network between the hosts is not known") as caught:
            underlay_address(HOFF, said)
        assert "internal_ip" in caught.value.fix


def test_an_address_at_which_only_the_host_reaches_itself_is_refused() -> None:
    with pytest.raises(UsageError, match="address of the host hoff") as caught:
        underlay_address(HOFF, "127.0.0.1 40000 127.0.0.1 22")
    assert "127.0.0.1" in caught.value.evidence
