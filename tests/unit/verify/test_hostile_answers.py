"""A node may answer anything: whatever replaces a part of the facts, the report is made, and its evidence is short."""

from __future__ import annotations

import copy
import json
import random
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.shapes.verify import Report
from gpuprov.verify.html import render_html
from gpuprov.verify.junit import render_junit
from gpuprov.verify.measure import measure_node
from gpuprov.verify.models import Observation
from gpuprov.verify.request import parse_answer
from tests.fakes.chain import judge_node
from tests.own_time import own_time
from tests.unit.verify.conftest import EXPECTED

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parent / "data"
ROUNDS = 100
LIMIT_S = 5.0
HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**400,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "\x1b[2J",
    "x" * 200_000,
    "[" * 100_000,
    '{"schema": "gpuprov.smoke/v1"}',
    [],
    [[]],
    {},
    {"error": {"error": []}},
    {"gpus": [{}]},
    [None, 7, {"uuid": []}],
)


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document, as a container and a key."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield document, key
        yield from places(value)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["real", "simulated"])
def test_any_part_may_be_anything(base: str) -> None:
    facts = json.loads((DATA / f"{base}.json").read_text())
    chance = random.Random(12)
    for _ in range(ROUNDS):
        changed = copy.deepcopy(facts)
        for _ in range(chance.randint(1, 3)):
            holder, key = chance.choice(list(places(changed)) or [(changed, "devices")])
            holder[key] = chance.choice(HOSTILE)
        seen = Observation(facts=changed)
        report = judge_node(EXPECTED[base], seen, "full")
        assert all(len(check.evidence) <= 2000 for check in report.checks)
        measure_node(EXPECTED[base], seen)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["real", "simulated"])
def test_what_is_made_of_such_answers_can_be_written(base: str) -> None:
    facts = json.loads((DATA / f"{base}.json").read_text())
    for part in facts:
        for value in HOSTILE:
            seen = Observation(facts={**facts, part: value})
            node = judge_node(EXPECTED[base], seen, "full")
            report = Report(cluster="lab", nodes=(node,), duration_s=1.0)
            render_html(report, made_at=datetime.now(timezone.utc))
            render_junit(report)


@pytest.mark.parametrize("word", ["x", "a=", "Reason=", ",gpu:1", "=", " "])
def test_a_line_of_slurm_s_without_end_is_judged_in_little_time(word: str) -> None:
    facts = json.loads((DATA / "simulated.json").read_text())
    facts["slurm"]["show"]["stdout"] = f"State=IDLE Gres={word * (300_000 // len(word))} {word * 300_000}"
    with own_time(LIMIT_S):
        checks = judge_node(EXPECTED["simulated"], Observation(facts=facts), "quick").checks
    assert all(len(check.evidence) <= 2000 for check in checks)


@pytest.mark.parametrize(
    "said",
    ["", "[]", "7", "null", "[" * 1_000_000, '{"a": ' * 100_000, "1" * 10_000, "\x1b[2J", "NaN", '{"a": 1'],
    ids=["nothing", "list", "number", "null", "deep list", "deep object", "long", "escape", "no number", "cut off"],
)
def test_what_is_no_document_is_a_problem_in_few_words(said: str) -> None:
    seen = parse_answer(0, said, "", seconds=1.0)
    assert seen.facts is None
    assert 0 < len(seen.problem) < 3000
