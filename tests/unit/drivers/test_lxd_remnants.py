"""Links that a killed LXD leaves on the host: told by a node's own MAC addresses, and by nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpuprov.core.execution import Completed
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


KINDS = {"veth1": "veth", "mac2": "macvlan", "veth3": "veth", "br0": "bridge", "eno1": None}


def test_links_with_a_node_s_addresses_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"veth1": 1, "mac2": 2, "veth3": 3, "br0": 1, "eno1": 1, "meanwhile": 1}
    for name, number in numbers.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "address").write_text(f"00:16:3e:00:00:0{number}\n")
    (tmp_path / "bonding_masters").touch()
    removed: list[str] = []

    def run(argv: list[str], **_options: object) -> Completed:
        assert argv[0] == "ip"
        link, there = argv[-1], argv[-1] in KINDS
        if "delete" in argv:
            removed.append(link)
        about = {"linkinfo": {"info_kind": KINDS[link]}} if there and KINDS[link] else {}
        said = json.dumps([about]) if there else ""
        return Completed(argv=tuple(argv), exit_code=0 if there else 1, stdout=said, stderr="", seconds=0.0)

    monkeypatch.setattr(remnants, "run", run)
    assert remnants.links_of_node(NODE, remnants.list_links(tmp_path)) == ("mac2", "veth1")
    remnants.remove_links(NODE, links=tmp_path)
    assert sorted(removed) == ["mac2", "veth1"]
