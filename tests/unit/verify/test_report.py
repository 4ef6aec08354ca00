from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.roles.registry import checks_of_roles
from gpuprov.shapes.base import write
from gpuprov.shapes.verify import LAYERS, Report
from gpuprov.verify.chain import BETWEEN_CHAIN, HOST_CHAIN
from gpuprov.verify.report import problem_lines, summary, table_headers, table_rows
from tests.fakes.chain import CHAIN, judge_node, rules_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.verify.models import Expectation, Observation

    Build = Callable[[dict[str, Any]], tuple[Expectation, Observation]]

ROOT = Path(__file__).parents[3]


@pytest.fixture
def report(build_case: Build) -> Report:
    cases: list[dict[str, Any]] = [
        {"base": "simulated"},
        {"base": "real", "facts": {"cuda": {"code": 999}}},
        {"base": "simulated", "seen": {"facts": None, "problem": "60 s", "timed_out": True}},
    ]
    return Report(cluster="lab", nodes=tuple(judge_node(*build_case(case)) for case in cases), duration_s=2.5)


def cells(report: Report, row: int) -> dict[str, str]:
    return dict(zip(table_headers(report), table_rows(report)[row], strict=True))


def test_a_row_shows_the_worst_of_each_layer_and_the_first_problem(report: Report) -> None:
    row = cells(report, 1)
    assert row["VERDICT"] == "fail"
    assert row["GPU"] == "2 raw"
    assert (row["DEVICES"], row["CUDA"], row["KERNELS"], row["SLURM"]) == ("pass", "fail", "skip", "pass")
    assert row["FIRST PROBLEM"] == "cuda-init: cuInit returned 999"


def test_a_simulated_pass_is_never_printed_as_a_pass_of_real_hardware(report: Report) -> None:
    row = cells(report, 0)
    assert row["VERDICT"] == "pass SIMULATED"
    assert row["GPU"] == "1 SIMULATED"
    assert "SIMULATED" in summary(report)


def test_a_real_report_does_not_say_simulated(report: Report) -> None:
    real = Report(cluster="lab", nodes=report.nodes[1:2], duration_s=1.0)
    assert "SIMULATED" not in f"{table_rows(real)} {summary(real)} {problem_lines(real)}"


def test_each_problem_has_its_layer_and_the_next_command(report: Report) -> None:
    lines = problem_lines(report)
    assert lines[0].startswith("c001: cuda: cuda-init: fail: cuInit returned 999")
    assert lines[1].startswith("  fix: nvidia-modprobe")
    assert len(lines) == 4


def test_nodes_with_the_same_problem_are_told_together(build_case: Build) -> None:
    stopped = [
        judge_node(*build_case({"base": "simulated", "expect": {"node": name, "status": "stopped"}}))
        for name in ("c000", "c001", "c003")
    ]
    alone = judge_node(*build_case({"base": "simulated", "expect": {"node": "c002", "complete": False}}))
    lines = problem_lines(Report(cluster="lab", nodes=(*stopped[:2], alone, stopped[2]), duration_s=1.0))
    assert lines[0].startswith("c[000-001,003]: node: node-running: fail: ")
    assert lines[1] == "  fix: gpuprov start c000    # repeat for each node"
    assert [line[:5] for line in lines if not line.startswith(" ")] == ["c[000", "c002:"]


def test_other_problems_of_a_node_are_named(build_case: Build) -> None:
    case = {"base": "simulated", "expect": {"complete": False}, "facts": {"slurm.show.stdout": "State=DOWN"}}
    lines = problem_lines(Report(cluster="lab", nodes=(judge_node(*build_case(case)),), duration_s=1.0))
    assert lines[1] == "  also: slurm-state fail"


def test_the_summary_counts(report: Report) -> None:
    assert summary(report).startswith("3 nodes: 1 fail, 1 pass, 1 unknown")


def test_the_document_holds_every_check(report: Report) -> None:
    document = json.loads(json.dumps(write(report)))
    assert document["schema"] == "gpuprov.verify/v1"
    assert (document["verdict"], document["passed"], document["simulated"]) == ("fail", False, True)
    for node in document["nodes"]:
        assert [check["id"] for check in node["checks"]] == [rule.id for rule in rules_of("quick")]
        assert sum(node["counts"].values()) == len(rules_of("quick"))
    assert document["nodes"][1]["first_problem"] == "cuda-init"
    skipped = next(check for check in document["nodes"][1]["checks"] if check["id"] == "kernels-run")
    assert (skipped["status"], skipped["cause"]) == ("skip", "cuda-init")


def test_every_check_and_every_key_is_documented(report: Report) -> None:
    text = (ROOT / "docs" / "verify.md").read_text()
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| ([a-z]+) \| [^|]+ \| ([^|]*)\|$", text, re.MULTILINE)
    found = [(check_id, layer, tuple(re.findall(r"`(.*?)`", needs))) for check_id, layer, needs in rows]
    below = {rule.id: tuple(other.id for other in CHAIN if rule.id in other.host) for rule in HOST_CHAIN}
    assert found == [
        *((rule.id, rule.layer, below[rule.id]) for rule in HOST_CHAIN),
        *((rule.id, rule.layer, rule.needs) for rule in BETWEEN_CHAIN),
        *((rule.id, rule.layer, rule.needs) for rule in CHAIN),
    ]
    assert {rule.layer for rule in CHAIN} == {*LAYERS, *(check.layer for check in checks_of_roles())}
    document = write(report)
    for keys in (document, document["nodes"][0], document["nodes"][0]["checks"][0]):
        assert all(f"`{key}`" in text for key in keys if key != "version")
