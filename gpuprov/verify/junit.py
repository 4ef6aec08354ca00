"""A report as JUnit XML, as CI systems read it: one suite for the host and for each node, one case for each check."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from gpuprov.verify.report import SIMULATED, first_lines

if TYPE_CHECKING:
    from gpuprov.shapes.verify import Check, NodeReport, Report

# XML 1.0 has no way at all to write these, and a node may say anything.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(report: Report) -> str:
    """The XML document.

    A check that fails is a failure, one that is unknown an error, one that warns a pass that says so. A node that does
    not pass although no check failed or is unknown (all were skipped) has an error of its own, so that it is not green.
    """
    suites = [_suite(report, node) for node in report.places]
    root = ET.Element("testsuites", name=_clean(f"gpuprov verify {report.cluster}"), time=f"{report.duration_s:.3f}")
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, 0)) for suite in suites)))
    root.extend(suites)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _suite(report: Report, node: NodeReport) -> ET.Element:
    suite = ET.Element("testsuite", name=_clean(_marked(node.node, node)), time=f"{node.duration_s:.3f}")
    properties = ET.SubElement(suite, "properties")
    facts = {
        "cluster": report.cluster,
        "level": report.level,
        "verdict": node.verdict,
        "simulated": str(node.simulated).lower(),
        "gpus": " ".join(node.gpus),
    }
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=name, value=_clean(value))
    cases = [_case(report, node, check) for check in node.checks]
    if node.verdict == "unknown" and not any(check.status == "unknown" for check in node.checks):
        cases.append(_nothing_passed(report, node))
    suite.set("tests", str(len(cases)))
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(sum(case.find(tag) is not None for case in cases)))
    suite.extend(cases)
    return suite


def _case(report: Report, node: NodeReport, check: Check) -> ET.Element:
    case = _named(report, node, check.layer, check.id)
    if check.status in ("fail", "unknown"):
        tag = "failure" if check.status == "fail" else "error"
        problem = ET.SubElement(case, tag, message=_clean(check.evidence), type=check.severity)
        problem.text = _clean("\n".join(first_lines(check)))
    elif check.status == "skip":
        ET.SubElement(case, "skipped", message=_clean(check.evidence))
    else:
        ET.SubElement(case, "system-out").text = _clean("\n".join(first_lines(check)))
    return case


def _nothing_passed(report: Report, node: NodeReport) -> ET.Element:
    case = _named(report, node, "node", "verdict")
    problem = ET.SubElement(case, "error", message="no check passed", type="critical")
    causes = sorted({check.cause for check in node.checks if check.cause})
    problem.text = f"skipped because of {', '.join(causes)}" if causes else "every check was skipped"
    return case


def _named(report: Report, node: NodeReport, layer: str, name: str) -> ET.Element:
    return ET.Element(
        "testcase", classname=_clean(f"gpuprov.{report.cluster}.{node.node}.{layer}"), name=_marked(name, node)
    )


def _marked(name: str, node: NodeReport) -> str:
    return f"{name} [{SIMULATED}]" if node.simulated else name


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
