from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.shapes.verify import Check, CheckStatus, NodeReport, Report, Verdict

if TYPE_CHECKING:
    from gpuprov.shapes.choices import AccessName


def node(*statuses: CheckStatus, access: AccessName = "raw") -> NodeReport:
    checks = tuple(
        Check(id=f"check-{n}", layer="node", status=status, severity="critical", evidence="e", fix="f")
        for n, status in enumerate(statuses)
    )
    return NodeReport(node="c000", access=access, gpus=(), checks=checks, duration_s=1.0)


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        (("pass", "pass"), "pass"),
        (("pass", "skip"), "pass"),
        (("pass", "warn"), "warn"),
        (("warn", "skip"), "warn"),
        (("pass", "unknown"), "unknown"),
        (("warn", "unknown"), "unknown"),
        (("unknown", "fail"), "fail"),
        (("skip", "skip"), "unknown"),
        (("unknown", "skip"), "unknown"),
        ((), "unknown"),
    ],
)
def test_a_node_passes_only_where_something_passed_and_nothing_is_open(
    statuses: tuple[CheckStatus, ...], verdict: Verdict
) -> None:
    assert node(*statuses).verdict == verdict


def test_the_first_problem_is_a_failure_before_it_is_anything_else() -> None:
    found = node("warn", "unknown", "pass", "fail", "fail").problem
    assert found is not None
    assert found.id == "check-3"
    assert node("pass", "skip").problem is None


@pytest.mark.parametrize(
    ("nodes", "verdict", "passed"),
    [
        ((node("pass"), node("pass")), "pass", True),
        ((node("pass"), node("warn")), "warn", True),
        ((node("warn"), node("skip")), "unknown", False),
        ((node("unknown"), node("fail")), "fail", False),
        ((), "unknown", False),
    ],
)
def test_a_report_is_as_good_as_its_worst_node(nodes: tuple[NodeReport, ...], verdict: Verdict, passed: bool) -> None:
    report = Report(cluster="lab", nodes=nodes, duration_s=1.0)
    assert (report.verdict, report.passed) == (verdict, passed)


def test_one_simulated_node_makes_the_report_simulated() -> None:
    assert Report(cluster="lab", nodes=(node("pass"), node("pass", access="simulated")), duration_s=1.0).simulated
    assert not Report(cluster="lab", nodes=(node("pass"),), duration_s=1.0).simulated
