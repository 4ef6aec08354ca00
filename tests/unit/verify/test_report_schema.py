"""docs/verify.schema.json and the documents of real and of failing reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import jsonschema
import pytest

from gpuprov.documents.verify import verify_document
from gpuprov.planes.registry import checks_of_planes
from gpuprov.verify import models
from gpuprov.verify.measured import GpuRate, GpuSamples, KnownGood, Measured, Sample
from gpuprov.verify.models import NodeReport, Report
from tests.fakes.chain import judge_node

if TYPE_CHECKING:
    from collections.abc import Callable

    Build = Callable[[dict[str, Any]], tuple[models.Expectation, models.Observation]]

DOCS = Path(__file__).parents[3] / "docs"
CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "firing.json").read_text())
DESCRIPTION: dict[str, Any] = json.loads((DOCS / "verify.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(DESCRIPTION)
KNOWN = KnownGood(good=39000.0, fraction=1.1, verdict="ok", source="measured")
MEASURED = Measured(
    rates=(
        GpuRate(kernel="matmul", gpu="GPU-1", model="NVIDIA H100", unit="GFLOP/s", median=43000.0, known_good=KNOWN),
    ),
    gpus=(GpuSamples(uuid="GPU-1", samples=(Sample(at_s=0.0, temperature_c=61.0, throttle=4), Sample(at_s=0.25))),),
    problem="GPU is lost",
)


def validate(document: dict[str, Any]) -> None:
    # Not jsonschema.validate: that checks the schema again each time, which takes five times as long as the document.
    error = jsonschema.exceptions.best_match(VALIDATOR.iter_errors(document))
    if error is not None:
        raise error


def one(node: NodeReport, level: str = "quick") -> dict[str, Any]:
    document = verify_document(Report(cluster="lab", nodes=(node,), seconds=1.0, level=level))
    copy: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
    return copy


@pytest.fixture
def real(build_case: Build) -> dict[str, Any]:
    node = judge_node(*build_case({"base": "real"}))
    return one(NodeReport(**{**vars(node), "measured": MEASURED}), "full")


def test_the_host_is_in_the_form_of_a_node(build_case: Build) -> None:
    from gpuprov.verify.chain import judge_host
    from tests.unit.host.hosts import GATEWAY, see_host, see_real_host

    node = judge_node(*build_case({"base": "real"}))
    expected = models.Expectation(node="host", status="running", access="raw", gateway=GATEWAY, host="h")
    for seen in (see_real_host(), see_real_host(addresses={}), see_host(None)):
        host = judge_host(expected, seen)
        document = verify_document(Report(cluster="lab", nodes=(node,), seconds=1.0, host=host))
        validate(document)
        assert (document["host"]["node"], document["host"]["host"]) == ("host", "h")
        assert document["verdict"] == host.verdict
    del document["host"]
    with pytest.raises(jsonschema.ValidationError, match="'host' is a required property"):
        validate(document)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(DESCRIPTION)


@pytest.mark.parametrize("base", ["real", "simulated"])
def test_a_healthy_report_is_valid(base: str, build_case: Build) -> None:
    validate(one(judge_node(*build_case({"base": base}))))


def test_a_report_with_measurements_is_valid(real: dict[str, Any]) -> None:
    assert real["nodes"][0]["measured"]["rates"]
    validate(real)


def test_the_envelope_of_the_command_line_is_valid(real: dict[str, Any]) -> None:
    validate({"version": 1, **real, "seconds": {"verify": 1.5}})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_every_failing_report_is_valid(case: dict[str, Any], build_case: Build) -> None:
    node = judge_node(*build_case(case), case.get("level", "full"))
    assert node.verdict != "pass"
    # Those that pass are in the reports above; to validate them again takes most of the time.
    others = tuple(check for check in node.checks if check.status != "pass")
    assert others
    validate(one(replace(node, checks=others)))


def set_at(document: dict[str, Any], path: str, value: object) -> None:
    *parents, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    part: Any = document
    for key in parents:
        part = part[key]
    part[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema", "gpuprov.verify/v2"),
        ("verdict", "ok"),
        ("verdict", "fail"),
        ("passed", False),
        ("nodes", []),
        ("surprise", 1),
        ("nodes.0.simulated", True),
        ("nodes.0.access", "simulated"),
        ("nodes.0.counts.pass", -1),
        ("nodes.0.checks.0.layer", "moon"),
        ("nodes.0.checks.0.status", "fail"),
        ("nodes.0.checks.0.evidence", ""),
        ("nodes.0.checks.0.fix", ""),
        ("nodes.0.measured.rates.0.median", "fast"),
        ("nodes.0.measured.gpus.0.samples.0.throttle", 1.5),
        ("nodes.0.measured.gpus.0.samples.0.fan", 1),
    ],
)
def test_the_schema_refuses_what_is_wrong(path: str, value: object, real: dict[str, Any]) -> None:
    set_at(real, path, value)
    with pytest.raises(jsonschema.ValidationError):
        validate(real)


def test_a_simulated_gpu_with_a_rate_is_refused(real: dict[str, Any]) -> None:
    real["nodes"][0] |= {"access": "simulated", "simulated": True}
    with pytest.raises(jsonschema.ValidationError):
        validate(real)
    real["nodes"][0]["measured"]["rates"] = []
    validate(real)


def test_the_schema_knows_the_words_of_the_models() -> None:
    check = DESCRIPTION["$defs"]["check"]["properties"]
    assert tuple(check["layer"]["enum"]) == (
        *models.LAYERS,
        *dict.fromkeys(check.layer for check in checks_of_planes()),
    )
    assert set(check["status"]["enum"]) == set(get_args(models.CheckStatus))
    assert set(check["severity"]["enum"]) == set(get_args(models.Severity))
    assert set(DESCRIPTION["$defs"]["verdict"]["enum"]) == set(get_args(models.Verdict))
