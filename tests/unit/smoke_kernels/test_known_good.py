from __future__ import annotations

import json
from importlib import resources

import pytest

from smoke_kernels.known_good import judge_rate, with_judgement
from smoke_kernels.result import Check, KernelResult, Proof, Rate

H100 = {"name": "NVIDIA H100 80GB HBM3"}


def measured(*samples: float) -> KernelResult:
    checks = (Check(name="digest", passed=True, evidence="1 of 1"),)
    proof = Proof(digest="00", golden="00", golden_source="shipped", checks=checks)
    return KernelResult(kernel="matmul", simulated=False, proof=proof, rate=Rate(unit="GFLOP/s", samples=samples))


def test_every_rate_names_its_source() -> None:
    table = json.loads((resources.files("smoke_kernels") / "data" / "known_good.json").read_text(encoding="utf-8"))
    assert {rate["kernel"] for rate in table["rates"]} <= {"matmul", "anneal", "membw"}
    assert all(len(rate["source"]) > 10 and rate["good"] > 0 for rate in table["rates"])
    assert all(len(entry["source"]) > 10 for entry in table["comparisons"])


@pytest.mark.parametrize(
    ("value", "verdict"), [(45000.0, "ok"), (35100.0, "ok"), (35000.0, "low"), (29250.0, "low"), (29200.0, "bad")]
)
def test_a_rate_is_judged_by_the_lines_of_the_table(value: float, verdict: str) -> None:
    known = judge_rate(kernel="matmul", model=H100["name"], value=value)
    assert known is not None
    assert known["verdict"] == verdict


def test_an_unknown_model_is_not_judged() -> None:
    result = with_judgement(measured(1.0), {"name": "NVIDIA T4"}, None)
    assert result.passed
    assert result.rate is not None
    assert result.rate.known_good is None


def test_a_tolerance_fails_a_rate_below_it_by_the_median() -> None:
    assert with_judgement(measured(20000.0, 36000.0, 90000.0), H100, 0.1).passed
    assert not with_judgement(measured(20000.0, 35000.0, 90000.0), H100, 0.1).passed
    assert not with_judgement(measured(float("nan")), H100, 0.1).passed


def test_a_tolerance_without_a_known_rate_does_not_pass() -> None:
    assert not with_judgement(measured(1e9), {"name": "NVIDIA T4"}, 0.5).passed


def test_a_proof_that_asked_nothing_has_not_passed() -> None:
    proof = Proof(digest="00", golden="00", golden_source="shipped", checks=())
    assert not KernelResult(kernel="matmul", simulated=False, proof=proof).passed
    assert not KernelResult(kernel="matmul", simulated=False).passed
