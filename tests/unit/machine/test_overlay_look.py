"""What `verify` looks at of an overlay, where links and pings are said here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuprov.machine.overlay import end as overlay
from gpuprov.machine.overlay.plan import OverlayRequest

if TYPE_CHECKING:
    import pytest

REQUEST = OverlayRequest(
    cluster="lab", vni=77, port=4789, bridge="gpbr1", local="10.9.0.1", peers=("10.9.0.2", "10.9.0.3"), mtu=1450
)


def test_hosts_that_are_known_to_be_away_get_no_ping_and_stay_expected_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, int]] = []

    def ping(address: str, size: int) -> str:
        tried.append((address, size))
        return "answers"

    monkeypatch.setattr(overlay, "look_at_links", dict)
    monkeypatch.setattr(overlay, "underlay_mtu", lambda _local, _peers: 1500)
    monkeypatch.setattr(overlay, "ping_whole", ping)
    hosts = {"hinton": "10.9.0.2", "bengio": "10.9.0.3"}
    seen = overlay.look_at_overlay(REQUEST, hosts, overhead=50, untried=["bengio"])
    assert sorted(tried) == [("10.9.0.2", 64), ("10.9.0.2", 1500)]
    assert (seen["wanted"]["peers"], set(seen["echoes"])) == (hosts, {"hinton"})
