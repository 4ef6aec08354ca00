from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from gpuprov.documents.smoke_run import smoke_run_document
from gpuprov.verify.smoke_result import SmokeResult
from tests.schemas import validate

FACTS = json.loads((Path(__file__).parents[1] / "verify" / "data" / "real.json").read_text())
GOOD = SmokeResult(
    place="c000", verdict="pass", simulated=False, evidence="good", document=json.loads(FACTS["kernels"]["stdout"])
)
LOST = SmokeResult(place="c001", verdict="unknown", simulated=True, evidence="nothing came", fix="gpuprov shell c001")


def test_what_the_kernels_printed_is_in_it() -> None:
    document = smoke_run_document("matmul", [GOOD, LOST], host="h")
    assert validate(document) == "gpuprov.smoke-run/v1"
    assert (document["passed"], document["simulated"]) == (False, True)
    assert smoke_run_document("matmul", [GOOD], host="h")["passed"]


def test_no_place_passes_without_the_kernels_document() -> None:
    document = smoke_run_document("matmul", [GOOD], host="h")
    document["results"][0]["document"] = None
    with pytest.raises(jsonschema.ValidationError):
        validate(document)
