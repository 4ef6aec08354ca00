from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from gpuprov.shapes.base import changed
from gpuprov.shapes.verify import NodeReport, Report
from gpuprov.verify.junit import render_junit
from tests.fakes.chain import judge_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.verify.models import Expectation, Observation

    Build = Callable[[dict[str, Any]], tuple[Expectation, Observation]]

CASES: list[dict[str, Any]] = [
    {"base": "simulated"},
    {"base": "real", "facts": {"cuda": {"code": 999}}},
    {"base": "simulated", "seen": {"facts": None, "problem": "60 s", "timed_out": True}},
]


@pytest.fixture
def report(build_case: Build) -> Report:
    nodes = [changed(judge_node(*build_case(case)), node=f"c{n:03d}") for n, case in enumerate(CASES)]
    return Report(cluster="lab", nodes=tuple(nodes), duration_s=2.5)


def parse(report: Report) -> ET.Element:
    text = render_junit(report)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ')
    return ET.fromstring(text)


def test_a_suite_for_each_node_and_a_case_for_each_check(report: Report) -> None:
    root = parse(report)
    assert [suite.get("name") for suite in root] == ["c000 [SIMULATED]", "c001", "c002 [SIMULATED]"]
    for suite, node in zip(root, report.nodes, strict=True):
        cases = suite.findall("testcase")
        assert [str(case.get("name")).partition(" ")[0] for case in cases] == [check.id for check in node.checks]
        assert cases[0].get("classname") == f"gpuprov.lab.{node.node}.node"


def test_the_counts_are_those_of_the_cases(report: Report) -> None:
    root = parse(report)
    for suite, node in zip(root, report.nodes, strict=True):
        assert suite.get("tests") == str(len(node.checks))
        assert suite.get("failures") == str(len(suite.findall("testcase/failure"))) == str(node.counts["fail"])
        assert suite.get("errors") == str(len(suite.findall("testcase/error"))) == str(node.counts["unknown"])
        assert suite.get("skipped") == str(node.counts["skip"])
    assert root.get("failures") == "1"
    assert root.get("tests") == str(sum(len(node.checks) for node in report.nodes))


def test_a_failure_has_its_evidence_and_its_fix(report: Report) -> None:
    failure = parse(report).find(".//testcase[@name='cuda-init']/failure")
    assert failure is not None
    assert (failure.get("message"), failure.get("type")) == ("cuInit returned 999", "critical")
    assert "fix: nvidia-modprobe" in str(failure.text)


def test_simulated_is_said_at_every_case_of_a_simulated_node_and_at_no_other(report: Report) -> None:
    for suite, node in zip(parse(report), report.nodes, strict=True):
        marks = {"[SIMULATED]" in str(case.get("name")) for case in suite.findall("testcase")}
        assert marks == {node.simulated}


def test_a_node_where_nothing_was_proven_is_not_green(report: Report) -> None:
    node = report.nodes[0]
    skipped = tuple(changed(check, status="skip") for check in node.checks)
    root = parse(changed(report, nodes=(changed(node, checks=skipped),)))
    assert (root.get("failures"), root.get("errors")) == ("0", "1")
    case = root.find(".//testcase[error]")
    assert case is not None
    assert str(case.get("name")).startswith("verdict")


def test_a_warning_passes_and_says_so(report: Report) -> None:
    checks = report.nodes[1].checks
    warned: NodeReport = changed(report.nodes[1], checks=(changed(checks[0], status="warn", fix="look"), *checks[1:3]))
    root = parse(changed(report, nodes=(warned,)))
    assert (root.get("failures"), root.get("errors")) == ("0", "0")
    assert "warn: " in str(root.findtext(".//system-out"))


def test_what_a_node_says_cannot_break_the_document(report: Report) -> None:
    evil = "\x00\x1b[31m<![CDATA[ ]]> \ud800 \"'&</failure> ü"
    checks = (changed(report.nodes[1].checks[0], status="fail", evidence=evil, fix=evil),)
    root = parse(changed(report, nodes=(changed(report.nodes[1], checks=checks),)))
    message = str(root[0].findall("testcase/failure")[0].get("message"))
    assert "ü" in message
    assert "</failure>" in message
    assert not set(message) & {"\x00", "\x1b", "\ud800"}
