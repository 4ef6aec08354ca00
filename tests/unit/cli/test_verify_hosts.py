"""`verify` of a cluster that spans hosts: one report, whatever its form, and what the hosts need of each other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tests.fakes.hosts_in_worlds import SINCE
from tests.unit.cli.test_spanning import AWAY, lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from gpuprov.drivers.base import ExecResult
    from tests.fakes.engine import Command
    from tests.unit.cli.test_spanning import Typing

pytestmark = pytest.mark.slow

__all__ = ["lab"]
BETWEEN = [
    "host-answers", "host-version", "host-clock", "host-driver-equal", "overlay-link", "overlay-mtu", "overlay-peers",
]  # fmt: skip


def up(lab: Typing) -> Typing:
    lab.type("cluster", "up", "-f", lab.file, "--no-verify")
    lab.hosts.asked.clear()
    return lab


def between(told: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The status of each check between hosts, by host."""
    return {
        place["node"]: {check["id"]: check["status"] for check in place["checks"] if check["id"] in BETWEEN}
        for place in told["hosts"]
    }


def test_one_document_has_the_nodes_of_all_hosts_and_each_host_beside_the_others(lab: Typing) -> None:
    told = up(lab).json("verify", expect=1)  # nothing runs in nodes of a fake engine
    assert [(node["node"], node["host"]) for node in told["nodes"]] == [
        ("c000", "hoff"),
        ("c001", "hoff"),
        ("c002", "hinton"),
        ("c003", "hinton"),
    ]
    fine = dict.fromkeys(BETWEEN, "pass") | {"host-driver-equal": "skip"}
    assert between(told) == {"hoff": fine, "hinton": fine}
    assert lab.hosts.asked == [(host, verb) for verb in ("part", "verify") for host in ("hoff", "hinton")]


def test_the_nodes_of_other_hosts_are_among_those_that_a_node_has_to_reach(lab: Typing) -> None:
    engine = up(lab).hosts.worlds["hoff"].engine
    heard: list[str] = []
    answer = engine.answer

    def hear(command: Command) -> ExecResult:
        heard.append(command.argv[-1])
        return answer(command)

    engine.answer = hear
    lab.json("verify", "c000", expect=1)
    (asked,) = [text for text in heard if '"network"' in text]
    assert json.loads(asked)["network"]["eth1"] == ["10.0.5.2", "10.0.5.3", "10.0.5.4"]


def test_an_overlay_that_a_host_lost_is_named_with_its_host_and_a_fix(lab: Typing) -> None:
    up(lab).hosts.worlds["hinton"].host.overlays.there.clear()
    found = between(lab.json("verify", expect=1))
    assert (found["hinton"]["overlay-link"], found["hoff"]["overlay-link"]) == ("fail", "pass")
    shown = lab.type("verify", expect=1)
    assert "hinton: network: overlay-link: fail: there is no link gpvx" in shown
    assert shown.split()[:3] == ["NODE", "HOST", "VERDICT"]
    assert "2 hosts:" in shown


def test_a_packet_of_full_size_that_does_not_arrive_fails(lab: Typing) -> None:
    up(lab).hosts.worlds["hoff"].host.overlays.whole = False
    found = between(lab.json("verify", expect=1))
    assert (found["hoff"]["overlay-mtu"], found["hinton"]["overlay-mtu"]) == ("fail", "pass")


def test_a_clock_that_is_off_is_seen(lab: Typing) -> None:
    up(lab).hosts.ahead_s = 40.0
    told = lab.json("verify", expect=1)
    assert {status["host-clock"] for status in between(told).values()} == {"warn"}
    (said,) = [check["evidence"] for check in told["hosts"][0]["checks"] if check["id"] == "host-clock"]
    assert said.startswith(("40.0", "39.9"))
    assert "behind the machine that asks" in said


def test_a_host_that_is_away_is_in_the_report_and_its_nodes_are_unknown(lab: Typing) -> None:
    up(lab).hosts.away = {"hinton"}
    told = lab.json("verify", expect=AWAY)
    assert told["error"]["exit_code"] == AWAY
    verdicts = {node["node"]: node["verdict"] for node in told["nodes"]}
    assert (verdicts["c002"], verdicts["c003"]) == ("unknown", "unknown")
    (host,) = [place for place in told["hosts"] if place["node"] == "hinton"]
    assert [check["status"] for check in host["checks"]] == ["fail", *["skip"] * 6]
    assert SINCE in host["checks"][0]["evidence"]
    assert between(told)["hoff"]["overlay-mtu"] == "pass", "what is known to be away is not tried"
    assert ("hinton", "verify") not in lab.hosts.asked


def test_a_host_with_another_version_is_told_as_such(lab: Typing) -> None:
    up(lab).hosts.outdated = {"hinton"}
    assert between(lab.json("verify", expect=AWAY))["hinton"]["host-version"] == "fail"
    assert "gpuprov host add hinton" in lab.type("verify", expect=AWAY)


def test_single_nodes_are_asked_for_on_their_hosts_alone(lab: Typing) -> None:
    told = up(lab).json("verify", "c003", expect=1)
    assert [node["node"] for node in told["nodes"]] == ["c003"]
    assert [place["node"] for place in told["hosts"]] == ["hinton"]
    lab.type("verify", "c009", expect=2)
    assert "no host of cluster lab has a node c009" in lab.errors


def test_the_report_is_also_written_as_files(lab: Typing, tmp_path: Path) -> None:
    junit, html = tmp_path / "verify.xml", tmp_path / "verify.html"
    up(lab).type("verify", "--junit", str(junit), "--html", str(html), expect=1)
    suites = [suite.get("name") for suite in ET.parse(junit).getroot()]
    assert suites == [f"{place} [SIMULATED]" for place in ("hoff", "hinton", "c000", "c001", "c002", "c003")]
    assert '<th scope="col">Host</th>' in html.read_text()


def test_a_watch_tells_a_host_that_goes_and_comes_back(lab: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    up(lab)

    def rounds(_interval_s: float, _clock: object) -> Iterator[None]:
        for away in (set(), {"hinton"}, {"hinton"}, set()):
            lab.hosts.away = away
            yield

    monkeypatch.setattr("gpuprov.core.rounds.every", rounds)
    said = [line.partition("Z ")[2] for line in lab.type("verify", "--watch", "1").splitlines()]
    assert [line for line in said if line.startswith("hinton:") and "->" in line] == [
        "hinton: absent -> unknown SIMULATED",
        "hinton: unknown -> fail SIMULATED",
        "hinton: fail -> unknown SIMULATED",
    ]
    assert "hinton:   host-answers: pass" in said
