"""What the health checks make of readings that have no value, of limits, and of several GPUs at once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.verify.checks.links import look_at_nvlink
from gpuprov.verify.probe import sum_up
from tests.fakes.chain import CHAIN, judge_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.shapes.verify import Check
    from gpuprov.verify.models import Expectation, Observation

    Build = Callable[[dict[str, Any]], tuple[Expectation, Observation]]

READINGS = json.loads((Path(__file__).parent / "data" / "real.json").read_text())["nvml"]["gpus"][0]["readings"]
ROW = {"throttle": 1, "pcie_replay": 4, "temperature_c": 33, "pcie_generation": 1}
GPU = "GPU-aaaaaaaa-0000-4000-8000-000000000000"
UNASKED = ("nvml-answers", "nvml-responds", "nvml-mig", "nvml-uuids", "nvml-mig-pending")  # not about these readings
HEALTH = [rule.id for rule in CHAIN if rule.id.startswith("nvml-") and rule.id not in UNASKED]


def judge(build_case: Build, facts: dict[str, Any], **expect: Any) -> dict[str, Check]:
    expected, seen = build_case({"base": "real", "facts": facts})
    return {check.id: check for check in judge_node(replace(expected, **expect), seen, "full").checks}


def no_answer(code: int, text: str) -> dict[str, Any]:
    """Facts in which no GPU answers anything but its MIG mode."""
    absent = {name: {"code": code, "text": text} for name in READINGS if name != "mig_mode"}
    facts: dict[str, Any] = {
        f"nvml.gpus.{number}.readings": {**absent, "mig_mode": READINGS["mig_mode"]} for number in (0, 1)
    }
    return {**facts, "nvml.p2p": [{"pair": [0, 1], "code": code, "text": text}]}


@pytest.mark.parametrize(("code", "text"), [(3, "Not Supported"), (13, "Function Not Found"), (25, "Version Mismatch")])
def test_what_a_gpu_does_not_know_is_skipped_with_the_reason(build_case: Build, code: int, text: str) -> None:
    checks = judge(build_case, no_answer(code, text))
    for check_id in HEALTH:
        assert checks[check_id].status == "skip", check_id
        assert f"{text} (code {code})" in checks[check_id].evidence


def test_what_may_not_be_asked_is_unknown_and_the_node_does_not_pass(build_case: Build) -> None:
    checks = judge(build_case, no_answer(4, "Insufficient Permissions"))
    assert {check_id: checks[check_id].status for check_id in HEALTH} == dict.fromkeys(HEALTH, "unknown")
    assert all(checks[check_id].fix for check_id in HEALTH)
    expected, seen = build_case({"base": "real", "facts": no_answer(4, "Insufficient Permissions")})
    assert judge_node(expected, seen).verdict == "unknown"


@pytest.mark.parametrize(
    ("check_id", "name", "value"),
    [
        ("nvml-retired-pages", "retired_pending", 0),
        ("nvml-margin", "temperature_margin_c", -3),  # unreliable on an H100: 87 - 33 is taken instead
        ("nvml-margin", "temperature_margin_c", 11),
        ("nvml-temperature", "temperature_c", 87),
        ("nvml-power-limit", "power_limit_mw", 665000),
        ("nvml-clocks-hardware", "clock_reasons", 0x01 | 0x04 | 0x20),
        ("nvml-clocks-thermal", "clock_reasons", 0x01 | 0x04 | 0x08),
        ("nvml-remap-failure", "row_remap", [2, 1, 1, 0]),
        ("nvml-remap-pending", "row_remap", [2, 1, 0, 1]),
        ("nvml-ecc-mode", "ecc_mode", [0, 0]),
        ("nvml-compute-mode", "compute_mode", 3),
        ("nvml-processes", "processes", [{"pid": 7, "here": True}]),
        ("nvml-fabric", "fabric", {"state": 3, "status": 0, "health": 0}),  # nothing is supported
        ("nvml-fabric", "fabric", {"state": 3, "status": 0, "health": 0x1AA}),  # nothing is wrong
    ],
)
def test_a_check_that_does_not_fire(build_case: Build, check_id: str, name: str, value: object) -> None:
    checks = judge(build_case, {f"nvml.gpus.{number}.readings.{name}": {"value": value} for number in (0, 1)})
    assert checks[check_id].status == "pass"


@pytest.mark.parametrize(
    ("check_id", "name", "value"),
    [
        ("nvml-nvlink", "nvlinks", [0, 0, 0, 0]),  # no bridge, or MIG is on
        ("nvml-fabric", "fabric", {"state": 0, "status": 0}),
    ],
)
def test_a_machine_without_such_a_thing(build_case: Build, check_id: str, name: str, value: object) -> None:
    changes: dict[str, object] = {f"nvml.gpus.{number}.readings.{name}": {"value": value} for number in (0, 1)}
    checks = judge(
        build_case, {**changes, **{f"nvml.gpus.{number}.name": "NVIDIA A100-PCIE-40GB" for number in (0, 1)}}
    )
    assert checks[check_id].status == "skip"
    assert "no NV" in checks[check_id].evidence


@pytest.mark.parametrize(
    ("model", "status"),
    [
        ("NVIDIA A100-SXM4-80GB", "warn"),
        ("NVIDIA H100 80GB HBM3", "warn"),
        ("NVIDIA B200", "warn"),
        ("NVIDIA H200", "warn"),
        ("NVIDIA H100 PCIe", "skip"),
        ("NVIDIA H200 NVL", "skip"),
        ("NVIDIA GH200 480GB", "skip"),
        ("NVIDIA GeForce RTX 3090", "skip"),
    ],
)
def test_links_that_are_all_down_matter_where_the_board_wires_them(build_case: Build, model: str, status: str) -> None:
    parts = {"readings.nvlinks": {"value": [0] * 18}, "name": model}
    checks = judge(
        build_case, {f"nvml.gpus.{number}.{part}": value for number in (0, 1) for part, value in parts.items()}
    )
    assert checks["nvml-nvlink"].status == status


@pytest.mark.parametrize(
    ("model", "links", "status"),
    [
        ("NVIDIA H100 80GB HBM3", 18, "pass"),
        ("NVIDIA H100 80GB HBM3", 16, "warn"),
        ("NVIDIA A100-SXM4-40GB", 12, "pass"),
        ("NVIDIA A100-SXM4-40GB", 11, "warn"),
        ("Tesla V100-SXM2-16GB", 6, "pass"),
        ("Tesla V100-SXM2-16GB", 5, "warn"),
        ("NVIDIA H200", 17, "warn"),
        ("NVIDIA B200", 18, "pass"),
        ("NVIDIA A800-SXM4-80GB", 8, "pass"),  # a model whose number is not known
        ("NVIDIA H100 PCIe", 12, "pass"),
    ],
)
def test_a_gpu_has_as_many_links_as_its_model(build_case: Build, model: str, links: int, status: str) -> None:
    parts = {"readings.nvlinks": {"value": [1] * links}, "name": model}
    checks = judge(
        build_case, {f"nvml.gpus.{number}.{part}": value for number in (0, 1) for part, value in parts.items()}
    )
    assert checks["nvml-nvlink"].status == status


@pytest.mark.parametrize("links", [[0] * 12, [1] * 10])
def test_a_gpu_that_is_cut_into_parts_need_not_have_its_links(links: list[int]) -> None:
    values = {"name": "NVIDIA A100-SXM4-40GB", "nvlinks": links}
    assert look_at_nvlink({**values, "mig_mode": [0, 0]}).status == "warn"
    assert look_at_nvlink({**values, "mig_mode": [1, 1]}).status in ("skip", "pass")


def test_gpus_that_cannot_reach_each_other_by_their_kind_are_no_warning(build_case: Build) -> None:
    checks = judge(build_case, {"nvml.p2p.0.value": 2})
    assert checks["nvml-p2p"].status == "skip"


def test_processes_of_others_are_nothing_where_the_gpu_is_shared_or_cut(build_case: Build) -> None:
    foreign = {"nvml.gpus.0.readings.processes": {"value": [{"pid": 9, "here": False}]}}
    assert judge(build_case, foreign)["nvml-processes"].status == "warn"
    assert judge(build_case, foreign, sharing="shared")["nvml-processes"].status == "skip"


def test_the_worst_gpu_decides_and_is_named(build_case: Build) -> None:
    facts = {
        "nvml.gpus.0.readings.ecc_uncorrected": {"code": 4, "text": "Insufficient Permissions"},
        "nvml.gpus.1.readings.ecc_uncorrected": {"value": 1},
    }
    check = judge(build_case, facts)["nvml-ecc-uncorrected"]
    assert (check.status, check.evidence) == ("fail", "GPU 1: 1 uncorrected ECC errors")
    assert "-i GPU-aaaaaaaa-0000-4000-8000-000000000002" in (check.fix or "")
    assert judge(build_case, {})["nvml-ecc-uncorrected"].evidence == "GPU 0, 1: 0 uncorrected ECC errors"


@pytest.mark.parametrize("reading", [None, 3, {}, {"value": None}, {"code": "x"}, {"value": "x"}])
def test_a_reading_that_makes_no_sense_never_passes(build_case: Build, reading: object) -> None:
    names = ("row_remap", "temperature_max_c", "nvlinks", "fabric", "mig_mode", "processes")
    for name in names:
        expected, seen = build_case({"base": "real", "facts": {f"nvml.gpus.0.readings.{name}": reading}})
        assert judge_node(expected, seen).verdict in ("fail", "unknown"), name


def test_what_was_seen_is_kept_when_samples_are_dropped() -> None:
    seen = None
    for change in ({"throttle": 0x40}, {"temperature_c": 80}, {"pcie_generation": 5}, {"pcie_replay": 6}, {}):
        seen = sum_up(seen, ROW | change)
    assert seen == {
        "samples": 5, "throttle": 0x41, "temperature_c": 80, "pcie_generation": 5, "pcie_replay_first": 4,
        "pcie_replay_last": 4,
    }  # fmt: skip


def test_what_a_gpu_never_told_under_load_is_skipped(build_case: Build) -> None:
    seen = sum_up(sum_up(None, dict.fromkeys(ROW)), dict.fromkeys(ROW))
    assert seen == {**dict.fromkeys(seen), "samples": 2}
    checks = judge(build_case, {f"samples.seen.{GPU}": seen, f"samples.seen.{GPU[:-1]}2": seen})
    asked = [check_id for check_id in checks if check_id.startswith("load-") and "kernels-run" in needs(check_id)]
    assert len(asked) == 5
    assert {checks[check_id].status for check_id in asked} == {"skip"}
    assert all("not reported" in checks[check_id].evidence for check_id in asked)


def needs(check_id: str) -> tuple[str, ...]:
    return next(rule.needs for rule in CHAIN if rule.id == check_id)
