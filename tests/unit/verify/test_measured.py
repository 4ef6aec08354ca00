from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.shapes.base import write
from gpuprov.shapes.verify import GpuSamples, Sample
from gpuprov.verify.measure import measure_node
from gpuprov.verify.models import Observation

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.verify.models import Expectation

    Build = Callable[[dict[str, Any]], tuple[Expectation, Observation]]

KNOWN = {"good": 39000, "fraction": 1.05, "verdict": "ok", "source": "measured"}
ROW = {
    "at_s": 0.5,
    "temperature_c": 61,
    "sm_clock_mhz": 1980,
    "memory_clock_mhz": None,
    "power_w": 345.6,
    "throttle": 4,
}


def test_rates_stand_beside_the_known_good_ones(build_case: Build) -> None:
    rates = measure_node(*build_case({"base": "real", "document": {"results.0.rate.known_good": KNOWN}})).rates
    assert [(rate.kernel, rate.median, rate.unit) for rate in rates] == [
        ("matmul", 41000.0, "GFLOP/s"),
        ("anneal", 2100.0, "flips/ns"),
        ("membw", 2900.0, "GB/s"),
    ] * 2
    assert [rate.gpu for rate in rates] == ["GPU-aaaaaaaa-0000-4000-8000-00000000000" + end for end in "000222"]
    assert rates[0].model.startswith("NVIDIA")
    assert rates[0].known_good is not None
    assert (rates[0].known_good.good, rates[0].known_good.source) == (39000, "measured")


def test_what_each_kernel_gave_on_each_gpu(build_case: Build) -> None:
    change = {"results.3.passed": False, "results.4.proof": None}
    runs = measure_node(*build_case({"base": "real", "document": change})).runs
    assert [run.kernel for run in runs] == ["matmul", "anneal", "membw"] * 2
    assert [run.passed for run in runs] == [True, True, True, False, True, True]
    assert [bool(run.digest) for run in runs] == [True, True, True, True, False, True]
    assert len({run.gpu for run in runs}) == 2


def test_a_simulated_gpu_has_no_rate_whatever_the_node_says(build_case: Build) -> None:
    rate = {"median": 41000.0, "unit": "GFLOP/s", "known_good": None}
    assert measure_node(*build_case({"base": "simulated", "document": {"results.0.rate": rate}})).rates == ()


def test_samples_by_gpu(build_case: Build) -> None:
    samples = {"gpus": {"GPU-1": [ROW, {**ROW, "at_s": 0.25, "throttle": None}]}, "problem": ""}
    measured = measure_node(*build_case({"base": "real", "facts": {"samples": samples}}))
    (gpu,) = measured.gpus
    assert [sample.at_s for sample in gpu.samples] == [0.25, 0.5]
    assert gpu.series("throttle") == ((0.5, 4),)
    assert gpu.series("memory_clock_mhz") == ()
    document = json.loads(json.dumps(write(measured)))
    assert document["gpus"][0]["samples"][1] == ROW
    assert document["problem"] is None


def test_why_samples_end_is_kept(build_case: Build) -> None:
    lost = {"gpus": {}, "problem": "NVMLError_GpuIsLost: GPU is lost"}
    assert measure_node(*build_case({"base": "real", "facts": {"samples": lost}})).problem == lost["problem"]
    assert measure_node(*build_case({"base": "real", "facts": {"samples": {"error": "broke"}}})).problem == "broke"


@pytest.mark.parametrize(
    "samples",
    [
        None,
        [],
        7,
        {"gpus": []},
        {"gpus": {"GPU-1": {}}},
        {"gpus": {"GPU-1": [None, {}, {"at_s": "x"}, {"at_s": float("nan")}, {"at_s": True}, {"at_s": 10**400}]}},
    ],
)
def test_nonsense_is_no_sample(build_case: Build, samples: object) -> None:
    measured = measure_node(*build_case({"base": "real", "facts": {"samples": samples}}))
    assert all(gpu.samples == () for gpu in measured.gpus)


def test_a_value_that_is_no_number_is_left_out(build_case: Build) -> None:
    row = {"at_s": 1, "temperature_c": float("inf"), "power_w": -1, "throttle": "4", "sm_clock_mhz": "<script>"}
    measured = measure_node(*build_case({"base": "real", "facts": {"samples": {"gpus": {"GPU-1": [row]}}}}))
    assert measured.gpus == (GpuSamples(uuid="GPU-1", samples=(Sample(at_s=1.0),)),)


def test_no_number_of_samples_floods_the_report(build_case: Build) -> None:
    rows = [{"at_s": number} for number in range(100_000)]
    measured = measure_node(*build_case({"base": "real", "facts": {"samples": {"gpus": {"GPU-1": rows}}}}))
    assert len(measured.gpus[0].samples) <= 1000


@pytest.mark.parametrize(
    "changes",
    [
        {"results": {}},
        {"results": [1, None]},
        {"results.0.rate": 3},
        {"results.0.rate": {}},
        {"results.0.rate.median": "fast"},
        {"results.0.kernel": ["matmul"]},
    ],
)
def test_nonsense_is_no_rate(build_case: Build, changes: dict[str, Any]) -> None:
    rates = measure_node(*build_case({"base": "real", "document": changes})).rates
    assert [rate for rate in rates if rate.gpu.endswith("0000") and rate.kernel == "matmul"] == []


@pytest.mark.parametrize("devices", [None, {}, [3], [{"uuid": 7}]])
def test_a_gpu_that_is_not_described_has_no_model(build_case: Build, devices: object) -> None:
    rates = measure_node(*build_case({"base": "real", "document": {"devices": devices}})).rates
    assert {rate.model for rate in rates} == {""}


@pytest.mark.parametrize("known", [1, {}, {**KNOWN, "good": 0}, {**KNOWN, "fraction": None}])
def test_nonsense_is_no_known_good_rate(build_case: Build, known: object) -> None:
    rate, *_ = measure_node(*build_case({"base": "real", "document": {"results.0.rate.known_good": known}})).rates
    assert rate.known_good is None


def test_a_node_that_did_not_answer_has_nothing(build_case: Build) -> None:
    expected, _ = build_case({"base": "real"})
    measured = measure_node(expected, Observation(problem="gone"))
    assert (measured.rates, measured.gpus, measured.problem) == ((), (), None)
