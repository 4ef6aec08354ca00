"""An overlay over three hosts, with the kernel's real links, in network namespaces of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuprov.verify.chain import judge_between
from gpuprov.verify.models import Expectation, Observation

ROOT = Path(__file__).parents[3]
PLAY = ["unshare", "-n", sys.executable, "-m", "tests.fakes.hosts_in_namespaces"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    done = subprocess.run(PLAY, check=False, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("when", ["works", "works again"])
def test_all_nodes_reach_each_other_and_nothing_arrives_twice(seen: dict[str, Any], when: str) -> None:
    assert seen[when]["answers"] == [["answers"] * 6] * 6
    assert seen[when]["broadcasts"] == [1] * 5


@pytest.mark.parametrize("when", ["works", "works again"])
def test_a_packet_of_eth1_s_mtu_passes_in_one_piece_and_a_larger_one_does_not(seen: dict[str, Any], when: str) -> None:
    assert seen[when]["full"] == ["answers", "EMSGSIZE"]
    assert seen[when]["fragments"] == ["0"] * 3
    assert seen[when]["mtus"] == [1450] * 6, "one that was there before has followed"


def test_the_first_run_makes_it_the_second_changes_nothing_and_a_later_one_repairs(seen: dict[str, Any]) -> None:
    assert seen["first"][0] == [
        "set the MTU of gpbr1 to 1450",
        "create overlay gpvx00004d (VXLAN 77, MTU 1450)",
        "connect overlay gpvx00004d to bridge gpbr1",
        "reach host 10.9.0.2 by overlay gpvx00004d",
        "reach host 10.9.0.3 by overlay gpvx00004d",
    ]
    assert seen["first"][2][0] == "create bridge gpvb00004d"
    assert seen["second"] == [[], [], []]
    assert seen["repaired"] == [
        ["connect overlay gpvx00004d to bridge gpbr1", "reach host 10.9.0.3 by overlay gpvx00004d"],
        seen["first"][1],
        ["set the MTU of gpvx00004d to 1450", "connect overlay gpvx00004d to bridge gpvb00004d"],
    ]
    assert seen["fewer"] == ["no longer reach host 10.9.0.3 by overlay gpvx00004d"]


def test_the_network_between_the_hosts_is_measured(seen: dict[str, Any]) -> None:
    assert seen["underlay"] == 1500
    assert seen["not its own"]["error"] == "10.9.0.9 is not an address of this host"


def test_verify_sees_a_healthy_overlay_and_a_way_that_is_narrower_than_its_ends(seen: dict[str, Any]) -> None:
    def ids(overlay: object) -> dict[str, str]:
        facts = {"versions": {"there": "1", "here": "1"}, "overlay": overlay}
        report = judge_between(Expectation(node="h", status="running"), Observation(facts=facts))
        return {check.id: check.status for check in report.checks if check.id.startswith("overlay")}

    healthy = dict.fromkeys(("overlay-link", "overlay-mtu", "overlay-peers"), "pass")
    assert [ids(overlay) for overlay in seen["observed"]] == [healthy] * 3
    assert ids(seen["observed narrow"]) == {**healthy, "overlay-mtu": "fail"}


def test_what_cannot_be_made_is_refused(seen: dict[str, Any]) -> None:
    assert "has no bridge on this host" in seen["no bridge yet"]["error"]
    assert seen["number taken"]["evidence"] == "by the VXLAN device theirs"
    assert "a link gpvx00004f that is not the overlay" in seen["name taken"]["error"]


def test_it_is_removed_and_nothing_foreign_with_it(seen: dict[str, Any]) -> None:
    assert seen["removed"][0] == ["remove overlay gpvx00004d"]
    assert seen["removed"][2] == ["remove overlay gpvx00004d", "remove overlay gpvb00004d"]
    assert seen["removed twice"] == [[], [], []]
    assert seen["left"] == [["eth0", "gpbr1", "gpvx00004f", "theirs"], ["eth0", "gpbr1"], ["eth0"]]
