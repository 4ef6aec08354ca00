"""What makes a bridge again before Docker starts: written once, as `ip -batch` reads it, and removed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.machine.overlay.kept_bridges import KeptBridges
from gpuprov.machine.overlay.plan import OverlayRequest

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = OverlayRequest(cluster="lab", vni=77, port=4789, bridge=None, local="10.9.0.1", peers=("10.9.0.2",), mtu=1450)


def test_the_commands_that_make_it_are_kept(tmp_path: Path) -> None:
    kept = KeptBridges(tmp_path / "bridges")
    kept.keep(REQUEST)
    assert kept.path("lab").read_text().splitlines() == [
        "link add name gpvb00004d type bridge",
        "link set dev gpvb00004d alias gpuprov:lab",
        "link set dev gpvb00004d addrgenmode none",
        "link set dev gpvb00004d mtu 1450",
        "link set dev gpvb00004d up",
    ]
    written = kept.path("lab").stat().st_mtime_ns
    kept.keep(REQUEST)
    assert kept.path("lab").stat().st_mtime_ns == written
    kept.keep(replace(REQUEST, mtu=1400))
    assert "mtu 1400\n" in kept.path("lab").read_text()
    assert [path.name for path in (tmp_path / "bridges").iterdir()] == ["lab.ip"]


def test_none_is_kept_where_the_engine_has_a_bridge(tmp_path: Path) -> None:
    kept = KeptBridges(tmp_path)
    kept.keep(REQUEST)
    kept.keep(replace(REQUEST, bridge="gpbr1"))
    assert not kept.path("lab").exists()
    kept.keep(REQUEST)
    kept.forget("lab")
    kept.forget("lab")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / "bridges").write_text("a file")
    with pytest.raises(HostNotReady, match="bridge gpvb00004d of cluster lab cannot be kept for the next boot"):
        KeptBridges(tmp_path / "bridges").keep(REQUEST)
    with pytest.raises(UsageError):
        KeptBridges(tmp_path).path("../lab")
