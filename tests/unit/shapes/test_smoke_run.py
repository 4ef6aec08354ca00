from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from gpuprov.shapes.base import write
from gpuprov.shapes.smoke_run import SmokeResult, SmokeRun
from tests.schemas import validate

FACTS = json.loads((Path(__file__).parents[1] / "verify" / "data" / "real.json").read_text())
GOOD = SmokeResult(
    place="c000", verdict="pass", simulated=False, evidence="good", document=json.loads(FACTS["kernels"]["stdout"])
)
LOST = SmokeResult(place="c001", verdict="unknown", simulated=True, evidence="nothing came", fix="gpuprov shell c001")


def test_what_the_kernels_printed_is_in_it() -> None:
    document = write(SmokeRun(host="h", kernel="matmul", results=(GOOD, LOST)))
    assert validate(document) == "gpuprov.smoke-run/v1"
    assert (document["passed"], document["simulated"]) == (False, True)
    assert write(SmokeRun(host="h", kernel="matmul", results=(GOOD,)))["passed"]


def test_no_place_passes_without_the_kernels_document() -> None:
    document = write(SmokeRun(host="h", kernel="matmul", results=(GOOD,)))
    document["results"][0]["document"] = None
    with pytest.raises(jsonschema.ValidationError):
        validate(document)
