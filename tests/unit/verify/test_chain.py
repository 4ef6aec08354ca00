"""Every check, in a node where it fires and in one where it does not; nodes are facts in data files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.verify.models import Observation
from tests.fakes.chain import CHAIN, judge_node, rules_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.shapes.verify import Check, NodeReport
    from gpuprov.verify.models import Expectation

    Case = dict[str, Any]
    Build = Callable[[Case], tuple[Expectation, Observation]]

DATA = Path(__file__).parent / "data"
FIRING = json.loads((DATA / "firing.json").read_text())
IDS = [rule.id for rule in CHAIN]
ASKED = json.loads((DATA / "real.json").read_text())["nvml"]["gpus"][0]["readings"]


def check_of(report: NodeReport, check_id: str) -> Check:
    return next(check for check in report.checks if check.id == check_id)


def statuses(report: NodeReport) -> dict[str, str]:
    return {check.id: check.status for check in report.checks}


def layer(name: str) -> set[str]:
    return {rule.id for rule in CHAIN if rule.layer == name}


def test_ids_are_unique_and_needs_stand_before() -> None:
    assert len(set(IDS)) == len(IDS)
    for level in ("quick", "full"):
        rules = rules_of(level)
        for position, rule in enumerate(rules):
            assert set(rule.needs) <= {earlier.id for earlier in rules[:position]}


def test_the_quick_level_asks_nothing_that_needs_load(build_case: Build) -> None:
    asked = [check.id for check in judge_node(*build_case({"base": "real", "facts": {"samples": None}})).checks]
    assert asked == [check_id for check_id in IDS if not check_id.startswith("load-")]
    assert {rule.id for rule in CHAIN if rule.level == "full"} == set(IDS) - set(asked)


def test_every_check_has_a_case_in_which_it_fires() -> None:
    assert {case["check"] for case in FIRING} == set(IDS)


@pytest.mark.parametrize(("role", "other"), [("slurm", "work"), ("worker", "slurm")])
def test_a_healthy_node_with_real_gpus_passes_every_check(role: str, other: str, build_case: Build) -> None:
    report = judge_node(*build_case({"base": "real", "expect": {"role": role}}), "full")
    skipped = {"nvml-retired-pages"} | layer(other)  # since Ampere: rows
    assert statuses(report) == {name: "skip" if name in skipped else "pass" for name in IDS}
    assert report.verdict == "pass"
    assert report.problem is None


@pytest.mark.parametrize(("role", "other"), [("slurm", "work"), ("worker", "slurm")])
def test_a_healthy_simulated_node_passes_what_can_be_asked_and_says_simulated(
    role: str, other: str, build_case: Build
) -> None:
    report = judge_node(*build_case({"base": "simulated", "expect": {"role": role}}), "full")
    asked = {check_id for check_id, status in statuses(report).items() if status == "pass"}
    assert set(IDS) - asked == layer(other) | {
        "driver-module", "driver-libraries", "cuda-init", "nvml-retired-pages", "nvml-p2p",
        "load-rate-matmul", "load-rate-anneal", "load-rate-membw",
    }  # fmt: skip
    assert report.verdict == "pass"
    assert report.simulated
    gpu_checks = [check for check in report.checks if check.layer in ("driver", "nvml", "cuda", "kernels")]
    assert all("SIMULATED" in check.evidence for check in gpu_checks)
    assert "SIMULATED" in check_of(report, "device-open").evidence


@pytest.mark.parametrize("case", FIRING, ids=[case["id"] for case in FIRING])
def test_a_check_fires_with_its_evidence_and_a_fix(case: Case, build_case: Build) -> None:
    report = judge_node(*build_case(case), case.get("level", "quick"))
    check = check_of(report, case["check"])
    assert check.status == case.get("status", "fail")
    assert case["says"] in check.evidence
    assert check.fix
    assert report.verdict == "warn" if check.status == "warn" else report.verdict in ("fail", "unknown")
    if "first" in case:
        assert report.problem == check


@pytest.mark.parametrize("case", [case for case in FIRING if "first" in case], ids=lambda case: case["id"])
def test_what_a_failure_explains_is_skipped_and_named(case: Case, build_case: Build) -> None:
    report = judge_node(*build_case(case))
    below = {case["check"]}
    for rule in rules_of("quick"):
        if below & set(rule.needs):
            below.add(rule.id)
    below.remove(case["check"])
    for check_id in below:
        check = check_of(report, check_id)
        assert (check.status, check.cause) == ("skip", case["check"])
    assert [check.id for check in report.checks if check.status in ("fail", "unknown")] == [case["check"]]


def test_a_node_without_gpus_is_not_asked_about_them(build_case: Build) -> None:
    expected, seen = build_case({"base": "simulated", "facts": {"kernels": None, "slurm.show.stdout": "State=IDLE"}})
    expected = replace(expected, access="none", gpus=(), devices=(), simulation=None)
    report = judge_node(expected, seen)
    assert report.verdict == "pass"
    gpu_checks = {rule.id for rule in CHAIN if rule.layer in ("driver", "nvml", "cuda", "kernels")}
    gpu_checks |= {"device-nodes", "device-open", "slurm-job", "slurm-devices"} | layer("work")
    assert {check_id for check_id, status in statuses(report).items() if status == "skip"} == {
        check_id for check_id in gpu_checks if not check_id.startswith("load-")
    }


def test_a_node_of_another_role_is_not_asked_about_work(build_case: Build) -> None:
    expected, seen = build_case({"base": "real", "facts": {"slurm": None, "worker": None}})
    report = judge_node(replace(expected, role="plain"), seen)
    assert report.verdict == "pass"
    assert {check.status for check in report.checks if check.layer in ("slurm", "work")} == {"skip"}


def test_a_node_alone_is_not_asked_about_others(build_case: Build) -> None:
    expected, seen = build_case({"base": "real", "facts": {"network": {"eth0": {"reached": ["10.0.3.1"]}}}})
    report = judge_node(replace(expected, peers=()), seen)
    assert statuses(report)["network-public"] == statuses(report)["network-private"] == "skip"
    assert report.verdict == "pass"


def test_packages_that_do_not_compile_for_a_gpu_are_told_before_kernels_fail(build_case: Build) -> None:
    expected, seen = build_case({"base": "real"})  # packages of CUDA 13
    volta = check_of(judge_node(replace(expected, capability=(7, 0)), seen), "cuda-wheels")
    assert volta.status == "fail"
    assert "compute capability 7.0, but nvidia_cuda_nvcc-13.0.88 compiles for 7.5 and newer" in volta.evidence
    assert str(volta.fix).startswith("gpuprov rm ")
    for capability in ((7, 5), (10, 0), None):
        report = judge_node(replace(expected, capability=capability), seen)
        assert check_of(report, "cuda-wheels").status == "pass"


def test_older_packages_run_on_a_newer_driver_and_none_are_no_failure(build_case: Build) -> None:
    older = build_case({"base": "real", "facts": {"wheels": ["nvidia_cuda_nvcc_cu12-12.9.86", "x-1"]}})
    assert check_of(judge_node(*older), "cuda-wheels").status == "pass"
    none = build_case({"base": "real", "facts": {"wheels": []}})
    assert check_of(judge_node(*none), "cuda-wheels").status == "skip"
    untold = build_case({"base": "real", "facts": {"nvml.versions.cuda": {"code": 13, "text": "Function Not Found"}}})
    assert check_of(judge_node(*untold), "cuda-wheels").status == "skip"


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (
            {"document": {"results.0.rate.known_good": None, "results.3.rate.known_good": None}},
            "41000 GFLOP/s; no expectation: there is no known",
        ),
        ({"expect": {"sharing": "shared"}}, "shares its GPUs"),
        ({"base": "simulated"}, "SIMULATED"),
    ],
)
def test_a_rate_that_cannot_be_compared_is_skipped_with_the_reason(case: Case, says: str, build_case: Build) -> None:
    check = check_of(judge_node(*build_case({"base": "real", **case}), "full"), "load-rate-matmul")
    assert (check.status, check.cause) == ("skip", None)
    assert says in check.evidence


def test_a_slurm_node_busy_with_jobs_is_not_a_failure(build_case: Build) -> None:
    line = "NodeName=c001 Gres=gpu:1 State=ALLOCATED"
    job = {"exit_code": 1, "timed_out": False, "stdout": "", "stderr": "srun: error: Requested nodes are busy"}
    report = judge_node(
        *build_case({"base": "simulated", "facts": {"slurm.show.stdout": line, "slurm.job": job}}),
    )
    assert [check_of(report, name).status for name in ("slurm-job", "slurm-devices")] == ["skip", "skip"]
    assert report.verdict == "pass"


def test_what_an_engine_does_not_fence_is_said_and_is_no_failure(build_case: Build) -> None:
    check = check_of(judge_node(*build_case({"base": "simulated"})), "slurm-devices")
    assert check.status == "pass"
    assert check.evidence == "not fenced, only hidden by variables: a job without a GPU can open /dev/nvidia0"
    fenced = check_of(judge_node(*build_case({"base": "real"})), "slurm-devices")
    assert (fenced.status, fenced.evidence) == ("pass", "a job opens no GPU that it did not ask for")


def test_a_mig_instance_is_compared_by_its_own_uuid(build_case: Build) -> None:
    gpus = [{"uuid": "GPU-whole", "name": "x", "mig": ["MIG-1"], "readings": ASKED | {"mig_mode": {"value": [1, 1]}}}]
    line = "NodeName=c001 Gres=gpu:1g.10gb:1 State=IDLE"
    for visible, verdict in (("MIG-1", "pass"), ("0", "fail"), ("MIG-2", "fail")):
        job = json.dumps({"node": "c001", "visible": visible, "uuids": [], "problem": "", "unasked": {}, "untried": ""})
        told = {"nvml.gpus": gpus, "slurm.show.stdout": line, "slurm.job.stdout": job}
        expected, seen = build_case({"base": "real", "facts": told})
        report = judge_node(replace(expected, gpus=("MIG-1",), devices=expected.devices[:1]), seen)
        assert report.verdict == verdict, visible


@pytest.mark.parametrize(
    "part", ["devices", "strangers", "mknod", "driver", "nvml", "cuda", "kernels", "network", "slurm"]
)
@pytest.mark.parametrize("nonsense", [None, 3, "x", [], {}, {"a": 1}, [1]])
def test_an_answer_that_makes_no_sense_never_passes(part: str, nonsense: object, build_case: Build) -> None:
    report = judge_node(*build_case({"base": "real", "facts": {part: nonsense}}))
    if (part, nonsense) == ("strangers", []):
        return  # that is the answer of a node with nothing else in /dev
    assert report.verdict in ("fail", "unknown")


def test_an_answer_without_its_parts_never_passes(build_case: Build) -> None:
    expected, _ = build_case({"base": "simulated"})
    assert judge_node(expected, Observation(facts={})).verdict == "unknown"
