from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from smoke_kernels import known_good
from smoke_kernels.document import render_text, smoke_document
from smoke_kernels.known_good import judge_rate, with_judgement
from smoke_kernels.result import Check, KernelResult, Proof, Rate

H100 = {"name": "NVIDIA H100 80GB HBM3"}
H200 = "NVIDIA H200"


def _table() -> dict[str, list[dict[str, Any]]]:
    table: dict[str, list[dict[str, Any]]] = json.loads(
        (resources.files("smoke_kernels") / "data" / "known_good.json").read_text(encoding="utf-8")
    )
    return table


def measured(*samples: float) -> KernelResult:
    checks = (Check(name="digest", passed=True, evidence="1 of 1"),)
    proof = Proof(digest="00", golden="00", golden_source="shipped", checks=checks)
    rate = Rate(unit="GFLOP/s", samples=samples)
    return KernelResult(kernel="matmul", simulated=False, parameters={"size": 4096}, proof=proof, rate=rate)


def test_every_rate_names_its_source() -> None:
    table = _table()
    assert {rate["kernel"] for rate in table["rates"]} <= {"matmul", "anneal", "membw"}
    assert all(len(rate["source"]) > 10 and rate["good"] > 0 for rate in table["rates"])
    assert all(len(entry["source"]) > 10 for entry in table["comparisons"])


@pytest.mark.parametrize(
    ("value", "verdict"), [(45000.0, "ok"), (39600.0, "ok"), (39500.0, "low"), (33000.0, "low"), (32900.0, "bad")]
)
def test_a_rate_is_judged_by_the_lines_of_the_table(value: float, verdict: str) -> None:
    known = judge_rate(kernel="matmul", model=H100["name"], parameters={"size": 4096}, value=value)
    assert known is not None
    assert known["verdict"] == verdict


@pytest.mark.parametrize(
    ("kernel", "size", "judged"),
    [("matmul", 2048, True), ("matmul", 1024, False), ("membw", 256 << 20, True), ("membw", 64 << 20, False)],
)
def test_a_rate_of_a_small_problem_is_not_that_of_the_gpu(kernel: str, size: int, *, judged: bool) -> None:
    known = judge_rate(kernel=kernel, model=H100["name"], parameters={"size": size}, value=3000.0)
    assert (known is not None) == judged


def test_a_rate_is_judged_by_its_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = {"kernel": "anneal", "model": "GPU", "unit": "flips/ns", "least_size": 2048, "good": 100, "source": "a test"}
    table = [{**rate, "variant": {"randoms": "independent", "replicas": 32}}]
    monkeypatch.setattr(known_good, "_rates", lambda: table)
    run = {"size": 64, "rate_size": 2048, "randoms": "independent", "replicas": 32}
    assert judge_rate(kernel="anneal", model="GPU", parameters=run, value=95.0) is not None
    for other in ({"rate_size": 1024}, {"randoms": "shared"}, {"replicas": 1}):
        assert judge_rate(kernel="anneal", model="GPU", parameters={**run, **other}, value=95.0) is None


@pytest.mark.parametrize("kernel", ["matmul", "anneal", "membw"])
@pytest.mark.parametrize("model", [H100["name"], H200])
def test_a_model_that_is_judged_was_measured(model: str, kernel: str) -> None:
    sources = [rate["source"] for rate in _table()["rates"] if (rate["model"], rate["kernel"]) == (model, kernel)]
    assert sources
    assert all(source.startswith("this kernel on an") for source in sources)


@pytest.mark.parametrize(
    ("model", "randoms", "replicas", "good"),
    [
        (H100["name"], "shared", 32, 4900),
        (H100["name"], "independent", 32, 650),
        (H100["name"], "independent", 1, 380),
        (H200, "shared", 32, 5850),
        (H200, "independent", 32, 665),
        (H200, "independent", 1, 380),
    ],
)
def test_each_variant_of_anneal_has_a_rate_of_its_own(model: str, randoms: str, replicas: int, good: int) -> None:
    run = {"size": 64, "rate_size": 4096, "randoms": randoms, "replicas": replicas}
    known = judge_rate(kernel="anneal", model=model, parameters=run, value=float(good))
    assert known is not None
    assert (known["good"], known["verdict"]) == (good, "ok")


def test_figures_of_others_are_compared_with_independent_random_numbers_only() -> None:
    anneals = [entry for entry in _table()["comparisons"] if entry["kernel"] == "anneal"]
    assert anneals
    assert all(entry["variant"] == {"randoms": "independent"} for entry in anneals)


def test_an_unknown_model_is_not_judged() -> None:
    result = with_judgement(measured(1.0), {"name": "NVIDIA T4"}, None)
    assert result.passed
    assert result.rate is not None
    assert result.rate.known_good is None


def test_a_tolerance_fails_a_rate_below_it_by_the_median() -> None:
    assert with_judgement(measured(20000.0, 40000.0, 90000.0), H100, 0.1).passed
    assert not with_judgement(measured(20000.0, 39000.0, 90000.0), H100, 0.1).passed
    assert not with_judgement(measured(float("nan")), H100, 0.1).passed


def test_a_tolerance_without_a_known_rate_does_not_pass() -> None:
    assert not with_judgement(measured(1e9), {"name": "NVIDIA T4"}, 0.5).passed


def test_a_proof_that_asked_nothing_has_not_passed() -> None:
    proof = Proof(digest="00", golden="00", golden_source="shipped", checks=())
    assert not KernelResult(kernel="matmul", simulated=False, proof=proof).passed
    assert not KernelResult(kernel="matmul", simulated=False).passed


@pytest.mark.parametrize(("known", "says"), [(None, "no expectation"), ({"good": 2.0}, "0.50 of 2.0: bad (a test)")])
def test_the_text_says_what_a_rate_is_worth_or_that_nobody_knows(known: dict[str, Any] | None, says: str) -> None:
    result = measured(1.0)
    if known and result.rate:
        known |= {"fraction": 0.5, "verdict": "bad", "source": "a test"}
        result = replace(result, rate=replace(result.rate, known_good=known))
    device = {"name": "a GPU", "uuid": None, "compute_capability": None}
    assert says in render_text(smoke_document(devices=[device], results=[result.to_json()], seconds={"total": 1.0}))
