"""An encrypted overlay over three hosts, with real links in network namespaces of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PLAY = ["unshare", "-n", "-m", sys.executable, "-m", "tests.fakes.tunnels_in_namespaces"]
MISSING = [name for name in ("wg", "nft") if shutil.which(name) is None]
MISSING += [] if Path("/sys/module/wireguard").exists() or shutil.which("wireguard-go") else ["wireguard-go"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [*PLAY, str(tmp_path_factory.mktemp("keys"))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_all_nodes_reach_each_other_and_nothing_arrives_twice(seen: dict[str, Any]) -> None:
    assert seen["answers"] == [["answers"] * 6] * 6
    assert seen["answers again"] == [["answers"] * 6] * 6
    assert seen["broadcasts"] == [1] * 5
    assert seen["full"] == ["answers", "EMSGSIZE"]


def test_between_the_hosts_is_nothing_but_wireguard(seen: dict[str, Any]) -> None:
    assert seen["on the way"]["51897"] >= 5
    assert seen["on the way"]["4789"] == 0


def test_frames_past_the_tunnel_do_not_reach_nodes_and_without_the_filter_they_would(seen: dict[str, Any]) -> None:
    assert seen["forged"] == 0
    assert seen["forged without the filter"] == 1


def test_each_host_has_one_key_that_it_keeps_and_root_alone_reads(seen: dict[str, Any]) -> None:
    first, second = seen["keys"]
    assert first == second
    assert len(set(first)) == 3
    assert seen["modes"] == ["0600"] * 3


def test_the_first_run_makes_it_the_second_changes_nothing_and_a_later_one_repairs(seen: dict[str, Any]) -> None:
    assert seen["first"][0] == [
        "create link gpwg00004d (WireGuard, UDP port 51897, MTU 1420)",
        "reach host 10.9.0.2 by gpwg00004d",
        "reach host 10.9.0.3 by gpwg00004d",
        "let frames in by gpwg00004d alone",
        "set the MTU of gpbr1 to 1370",
        "create overlay gpvx00004d (VXLAN 77, MTU 1370)",
        "connect overlay gpvx00004d to bridge gpbr1",
        "reach host 10.77.0.2 by overlay gpvx00004d",
        "reach host 10.77.0.3 by overlay gpvx00004d",
    ]
    assert seen["second"] == [[], [], []]
    assert seen["repaired"] == [
        ["let frames in by gpwg00004d alone"],
        [seen["first"][1][0], "reach host 10.9.0.1 by gpwg00004d", "reach host 10.9.0.3 by gpwg00004d"],
        ["bring up gpwg00004d"],
    ]
    assert seen["fewer"] == ["remove a peer of gpwg00004d", "no longer reach host 10.77.0.3 by overlay gpvx00004d"]


def test_it_is_removed_and_nothing_foreign_with_it(seen: dict[str, Any]) -> None:
    assert seen["removed"][0] == [
        "remove overlay gpvx00004d",
        "remove overlay gpwg00004d",
        "remove the packet filter of the overlay of cluster lab",
        "remove the key of the overlay of cluster lab",
    ]
    assert seen["removed twice"] == [[], [], []]
    assert seen["left"] == [["eth0", "gpbr1"], ["eth0", "gpbr1"], ["eth0"]]
    assert seen["tables left"] == [""] * 3
