"""The schema of `verify` and the documents of real and of failing reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.roles.registry import checks_of_roles
from gpuprov.shapes.base import changed, write
from gpuprov.shapes.verify import LAYERS, GpuRate, GpuSamples, KnownGood, Measured, NodeReport, Report, Sample
from gpuprov.verify import models
from tests.fakes.chain import judge_node
from tests.schemas import BEFORE, validate

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.shapes.verify import Level

    Build = Callable[[dict[str, Any]], tuple[models.Expectation, models.Observation]]

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "firing.json").read_text())
KNOWN = KnownGood(good=39000.0, fraction=1.1, verdict="ok", source="measured")
MEASURED = Measured(
    rates=(
        GpuRate(kernel="matmul", gpu="GPU-1", model="NVIDIA H100", unit="GFLOP/s", median=43000.0, known_good=KNOWN),
    ),
    gpus=(GpuSamples(uuid="GPU-1", samples=(Sample(at_s=0.0, temperature_c=61.0, throttle=4), Sample(at_s=0.25))),),
    problem="GPU is lost",
)


def one(node: NodeReport, level: Level = "quick") -> dict[str, Any]:
    document = write(Report(cluster="lab", nodes=(node,), duration_s=1.0, level=level))
    copy: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
    return copy


@pytest.fixture
def real(build_case: Build) -> dict[str, Any]:
    node = judge_node(*build_case({"base": "real"}))
    return one(changed(node, measured=MEASURED), "full")


def test_the_host_is_in_the_form_of_a_node(build_case: Build) -> None:
    from gpuprov.verify.chain import judge_host
    from tests.unit.machine.hosts import GATEWAY, see_host, see_real_host

    node = judge_node(*build_case({"base": "real"}))
    expected = models.Expectation(node="host", status="running", access="raw", gateway=GATEWAY, host="h")
    for seen in (see_real_host(), see_real_host(addresses={}), see_host(None)):
        host = judge_host(expected, seen)
        document = write(Report(cluster="lab", nodes=(node,), duration_s=1.0, host=host))
        validate(document)
        assert (document["host"]["node"], document["host"]["host"]) == ("host", "h")
        assert document["verdict"] == host.verdict


@pytest.mark.parametrize("base", ["real", "simulated"])
def test_a_healthy_report_is_valid(base: str, build_case: Build) -> None:
    validate(one(judge_node(*build_case({"base": base}))))


def test_a_report_with_measurements_is_valid(real: dict[str, Any]) -> None:
    assert real["nodes"][0]["measured"]["rates"]
    validate(real)


def test_the_envelope_of_the_command_line_is_valid(real: dict[str, Any]) -> None:
    validate({"version": 1, **real, "seconds": {"verify": 1.5}})


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_every_failing_report_is_valid(case: dict[str, Any], build_case: Build) -> None:
    node = judge_node(*build_case(case), case.get("level", "full"))
    assert node.verdict != "pass"
    # Those that pass are in the reports above; to validate them again takes most of the time.
    others = tuple(check for check in node.checks if check.status != "pass")
    assert others
    validate(one(changed(node, checks=others)))


def test_the_shape_knows_the_layers_of_roles() -> None:
    before = BEFORE["verify.schema.json"]["$defs"]["check"]["properties"]["layer"]["enum"]
    assert tuple(before) == (*LAYERS, *dict.fromkeys(check.layer for check in checks_of_roles()))
