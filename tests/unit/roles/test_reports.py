"""What the role cuda tells of a host's GPUs, and the report of lab.yml that holds it, are as their schemas say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import jsonschema
import pytest

from gpuprov.gpu.facts import gpus_document, main
from gpuprov.gpu.models import Gpu, HostGpus
from gpuprov.gpu.observe import observe
from gpuprov.shapes.base import read
from gpuprov.shapes.lab import Lab
from tests.schemas import validate

TEMPLATE = Path(__file__).parents[3] / "templates" / "report" / "lab.json.j2"
CARD = Gpu(index=0, uuid="GPU-1", minor=3, pci="0000:01:00.0", model="GTX 1080", compute_capability=(6, 1))
HOST = HostGpus(simulated=False, reason="NVML", driver_version="580.95.05", cuda_driver_version=13000, gpus=(CARD,))
FAILED = {"task": "Ask", "message": "no route"}
SMOKE = json.loads(
    json.loads((Path(__file__).parents[1] / "verify" / "data" / "real.json").read_text())["kernels"]["stdout"]
)


def report(**of: Any) -> dict[str, Any]:
    environment = jinja2.Environment(undefined=jinja2.ChainableUndefined)
    environment.filters["to_json"] = json.dumps
    told: dict[str, Any] = json.loads(environment.from_string(TEMPLATE.read_text()).render(item="bare0", of=of))
    return told


@pytest.mark.parametrize("card", [CARD, replace(CARD, compute_capability=None, memory_bytes=8 << 30)])
def test_the_fact_is_as_its_schema_says(card: Gpu, tmp_path: Path) -> None:
    assert validate(gpus_document(replace(HOST, gpus=(card,)), tmp_path)) == "gpuprov.gpu-facts/v1"
    simulated = observe(root=tmp_path, mode="simulated")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    assert validate(gpus_document(simulated, tmp_path)) == "gpuprov.gpu-facts/v1"
    with pytest.raises(jsonschema.ValidationError):
        validate({**gpus_document(HOST, tmp_path), "schema": "gpuprov.gpus/v1"})


def test_the_error_of_a_host_without_a_driver_is_one_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["real"], tmp_path) == 3
    assert validate(json.loads(capsys.readouterr().out)) == "gpuprov.error/v1"


@pytest.mark.parametrize(
    ("of", "verdict"),
    [
        ({}, "unreachable"),
        ({"gpu_facts": True}, "not run"),
        ({"gpu_facts": True, "lab_error": FAILED}, "failed"),
        ({"gpu_facts": True, "smoke_document": SMOKE, "slurm_state": {"stdout": "idle bare0"}}, "passed"),
    ],
)
def test_a_report_is_as_its_schema_says(of: dict[str, Any], verdict: str, tmp_path: Path) -> None:
    if "gpu_facts" in of:
        of = {**of, "gpu_facts": gpus_document(HOST, tmp_path)}
    told = report(**of)
    assert (validate(told), read(Lab, told).verdict) == ("gpuprov.lab/v1", verdict)
    with pytest.raises(jsonschema.ValidationError):
        validate({**told, "surprise": 1})
