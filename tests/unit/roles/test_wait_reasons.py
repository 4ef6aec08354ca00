"""Slurm's reasons are said in words, beside its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuprov.roles.work.wait_reasons import explain_wait

CATALOGUE = Path(__file__).parents[3] / "gpuprov/core/catalogue.json"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("AssocGrpGRES", "AssocGrpGRES (this person or account has as many GPUs as allowed at once)"),
        ("AssocGrpCpuLimit", "AssocGrpCpuLimit (this person or account has as much as allowed at once)"),
        ("QOSMaxGRESPerUser", "QOSMaxGRESPerUser (this person has as many GPUs as the QOS allows at once)"),
        ("QOSMaxWallDurationPerJobLimit", "QOSMaxWallDurationPerJobLimit (more than the QOS allows)"),
        ("BeginTime", "BeginTime (not before a set time; after a requeue, up to 2 minutes)"),
        (
            "ReqNodeNotAvail, UnavailableNodes:c001",
            "ReqNodeNotAvail, UnavailableNodes:c001 (the node that it needs is down, drained or held)",
        ),
        ("Resources; ann has 2 GPUs", "Resources; ann has 2 GPUs"),
        ("Nodes required for job are DOWN", "Nodes required for job are DOWN"),
        ("ANewReason", "ANewReason"),
        ("waits for 7", "waits for 7"),
        ("is being cancelled", "is being cancelled"),
    ],
)
def test_a_reason_keeps_slurms_word_and_gets_others(reason: str, words: str) -> None:
    assert explain_wait(reason) == words


def test_all_reasons_that_explain_knows_have_words() -> None:
    entries = json.loads(CATALOGUE.read_text())
    text = json.dumps(entries)
    found = set(re.findall(r"\b(Resources|Priority|Dependency\w*|BeginTime|Partition\w+Limit|JobHeld\w+)\b", text))
    assert "BeginTime" in found
    for reason in found:
        assert explain_wait(reason).startswith(f"{reason} (")
