"""What the hosts of one cluster need of each other, judged from what was observed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from gpuprov.verify.chain import BETWEEN_CHAIN, CHAIN, HOST_CHAIN, judge_between
from gpuprov.verify.models import Expectation, Observation

HOFF = Expectation(node="hoff", status="running", host="hoff")
HEALTHY: dict[str, Any] = {
    "versions": {"there": "1.2", "here": "1.2"},
    "clock": {"ahead_s": -0.3, "unsure_s": 0.1},
    "drivers": {"hoff": "550.54", "hinton": "550.54", "bengio": None},
    "overlay": {
        "wanted": {
            "device": "gpvx00004d", "parent": "gpbr1", "alias": "gpuprov:lab", "vni": 77, "port": 4789,
            "local": "10.9.0.1", "mtu": 1450, "overhead": 50, "peers": {"hinton": "10.9.0.2", "bengio": "10.9.0.3"},
        },
        "device": {
            "name": "gpvx00004d", "kind": "vxlan", "alias": "gpuprov:lab", "mtu": 1450, "master": "gpbr1", "up": True,
            "vni": 77, "port": 4789, "local": "10.9.0.1",
        },
        "parent": {"name": "gpbr1", "kind": "bridge", "mtu": 1450, "up": True},
        "underlay_mtu": 1500,
        "peers": ["10.9.0.2", "10.9.0.3"],
        "echoes": {host: {"small": "answers", "full": "answers"} for host in ("hinton", "bengio")},
    },
}  # fmt: skip
SILENT = {"small": "silent", "full": "silent"}
FIRING: list[tuple[str, str, str, str, object]] = [
    ("host-clock", "warn", "2.00 s ahead of", "clock.ahead_s", 2.0),
    ("host-clock", "fail", "400.00 s behind", "clock.ahead_s", -400.0),
    ("host-clock", "unknown", "malformed", "clock.ahead_s", None),
    ("host-driver-equal", "warn", "driver 535; 550 on hinton", "drivers", {"hoff": "535", "hinton": "550", "b": "550"}),
    ("overlay-link", "fail", "there is no link gpvx00004d", "overlay.device", None),
    ("overlay-link", "fail", "vni is 78 instead of 77", "overlay.device.vni", 78),
    ("overlay-link", "fail", "alias is none instead of gpuprov:lab", "overlay.device.alias", ""),
    ("overlay-link", "fail", "it is a port of no bridge, not of gpbr1", "overlay.device.master", ""),
    ("overlay-link", "fail", "it is down", "overlay.device.up", False),
    ("overlay-link", "fail", "the bridge gpbr1 is missing", "overlay.parent", None),
    ("overlay-link", "fail", "the bridge gpbr1 is down", "overlay.parent.up", False),
    ("overlay-mtu", "fail", "gpvx00004d has MTU 1500 instead of 1450", "overlay.device.mtu", 1500),
    ("overlay-mtu", "fail", "gpbr1 has MTU 1500 instead of 1450", "overlay.parent.mtu", 1500),
    ("overlay-mtu", "fail", "1500 bytes are sent", "overlay.underlay_mtu", 1420),
    ("overlay-mtu", "fail", "do not reach hinton in one piece", "overlay.echoes.hinton.full", "silent"),
    ("overlay-mtu", "unknown", "hinton answers no ping", "overlay.echoes.hinton", SILENT),
    ("overlay-peers", "fail", "bengio 10.9.0.3 is missing", "overlay.peers", ["10.9.0.2"]),
    ("overlay-peers", "fail", "10.9.0.9 is not a host", "overlay.peers", ["10.9.0.2", "10.9.0.3", "10.9.0.9"]),
]  # fmt: skip


def with_fact(path: str, value: object) -> Observation:
    facts = deepcopy(HEALTHY)
    place = facts
    *above, last = path.split(".")
    for key in above:
        place = place[key]
    place[last] = value
    return Observation(facts=facts, seconds=0.2)


def test_hosts_that_fit_together_pass_every_check() -> None:
    report = judge_between(HOFF, Observation(facts=HEALTHY, seconds=0.2))
    assert {check.id: check.status for check in report.checks} == {rule.id: "pass" for rule in BETWEEN_CHAIN}


def test_no_check_has_the_name_of_another() -> None:
    ids = [rule.id for rule in (*BETWEEN_CHAIN, *HOST_CHAIN, *CHAIN)]
    assert len(set(ids)) == len(ids)
    assert {case[0] for case in FIRING} | {"host-answers", "host-version"} == {rule.id for rule in BETWEEN_CHAIN}


@pytest.mark.parametrize(("name", "status", "says", "path", "value"), FIRING, ids=[f"{c[0]}: {c[2]}" for c in FIRING])
def test_a_check_fires_alone_with_its_evidence_and_a_fix(
    name: str, status: str, says: str, path: str, value: object
) -> None:
    report = judge_between(HOFF, with_fact(path, value))
    (fired,) = [check for check in report.checks if check.status in ("fail", "unknown", "warn")]
    assert (fired.id, fired.status) == (name, status)
    assert says in fired.evidence
    assert fired.fix
    assert "HOST" not in fired.fix


def test_a_host_that_does_not_answer_is_one_failure() -> None:
    report = judge_between(HOFF, Observation(problem="unreachable since 12:01: Connection timed out", timed_out=True))
    assert [check.status for check in report.checks] == ["fail", *["skip"] * 6]
    assert report.checks[0].evidence == "unreachable since 12:01: Connection timed out"
    assert str(report.checks[0].fix).startswith("ssh hoff true")


def test_a_host_with_another_version_is_one_failure() -> None:
    report = judge_between(HOFF, Observation(facts={"versions": {"there": "1.1", "here": "1.2"}}))
    assert [check.status for check in report.checks] == ["pass", "fail", *["skip"] * 5]
    assert report.checks[1].evidence == "version 1.1 there, 1.2 on the machine that asks"
    assert report.checks[1].fix == "gpuprov host add hoff"
    assert {check.cause for check in report.checks[2:]} == {"host-version"}


def test_a_cluster_without_an_overlay_of_ours_is_not_asked_about_it() -> None:
    report = judge_between(HOFF, with_fact("overlay", None))
    skipped = [check.id for check in report.checks if check.status == "skip"]
    assert skipped == ["overlay-link", "overlay-mtu", "overlay-peers"]
    assert report.verdict == "pass"


def test_a_fact_that_could_not_be_gathered_is_unknown() -> None:
    report = judge_between(HOFF, with_fact("overlay", {"error": "ip: not found"}))
    assert {check.id: check.status for check in report.checks}["overlay-link"] == "unknown"


def test_the_way_to_a_host_is_no_skew() -> None:
    report = judge_between(HOFF, with_fact("clock", {"ahead_s": 4.0, "unsure_s": 3.5}))
    assert {check.id: check.status for check in report.checks}["host-clock"] == "pass"
