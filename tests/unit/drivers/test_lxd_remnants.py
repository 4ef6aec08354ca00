"""Links that a killed LXD leaves on the host: told by a node's own MAC addresses, and by nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuprov.drivers.lxd import remnants

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NODE = {
    "config": {"volatile.eth1-port.hwaddr": "00:16:3e:00:00:02"},
    "devices": {
        "eth0": {"type": "nic", "hwaddr": "00:16:3e:00:00:01"},
        "eth1-port": {"type": "nic"},
        "eth2": {"type": "nic"},
        "root": {"type": "disk"},
    },
}


def make_link(links: Path, name: str, address: str, *also: str) -> None:
    for folder in ("", *also):
        (links / name / folder).mkdir(parents=True)
    (links / name / "address").write_text(f"{address}\n")


def test_links_with_a_stopped_node_s_addresses_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_link(tmp_path, "veth1", "00:16:3e:00:00:01")
    make_link(tmp_path, "veth2", "00:16:3e:00:00:02")
    make_link(tmp_path, "veth3", "00:16:3e:00:00:03")
    make_link(tmp_path, "eno1", "00:16:3e:00:00:01", "device")
    make_link(tmp_path, "br0", "00:16:3e:00:00:01", "bridge")
    (tmp_path / "bonding_masters").touch()
    (tmp_path / "gone").mkdir()
    ran: list[Any] = []
    monkeypatch.setattr(remnants, "run", lambda argv, **_options: ran.append(argv))
    remnants.remove_links(NODE, links=tmp_path)
    assert sorted(ran) == [["ip", "link", "delete", "veth1"], ["ip", "link", "delete", "veth2"]]
