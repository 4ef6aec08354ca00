"""The tables of docs/reliability.md are what the ledger says, and nothing else of the page changes."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reliability import TABLES, replace

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reliability.md"
KILL: dict[str, Any] = {"kind": "kill", "engine": "lxd", "verb": "cluster up", "step": "plan ...", "how": "SIGKILL"}
LEDGER: list[dict[str, Any]] = [
    {**KILL, "survived": True, "seconds": 2.0},
    {**KILL, "survived": False, "seconds": 0.0},
    {**KILL, "survived": True, "seconds": 4.0, "how": "engine", "step": "gptex000: creating", "told": 2},
    {"kind": "fake", "verb": "rm", "steps": 26, "pairs": 0},
    {"kind": "fake", "verb": "rm", "steps": 0, "pairs": 570},
    {"kind": "race", "where": "lxd", "race": "2 cluster up", "won": 1, "idle": 1, "refused": 0},
    {"kind": "race", "where": "lxd", "race": "2 cluster up", "won": 2, "idle": 0, "refused": 0},
    {"kind": "repair", "what": "the power is cut", "plan": "nothing to do", "seconds": 9.5},
    {"kind": "foreign", "engine": "lxd", "life": "up", "objects": 700, "changed": 0},
    {"kind": "foreign", "engine": "docker", "life": "up", "objects": 700, "changed": 0},
    {"kind": "hostile", "engine": "lxd", "misbehaviour": "the host key is a FIFO", "survived": True},
    {"kind": "hostile", "engine": "docker", "misbehaviour": "the host key is a FIFO", "survived": False},
    {"kind": "hostile", "engine": "lxd", "misbehaviour": "the probe never ends", "survived": True},
    {"kind": "hostile", "engine": "lxd", "misbehaviour": "the time limit is ignored", "survived": True},
    {"kind": "hostile", "engine": "docker", "misbehaviour": "the time limit is ignored", "survived": False},
    {"kind": "hostile-job", "state": "a FIFO", "place": "runs", "survived": True, "seconds": 0.1},
    {"kind": "hostile-job", "state": "a FIFO", "place": "slots", "survived": False, "seconds": 0.3},
    {"kind": "hostile-job", "state": "a FIFO", "place": "/.lock", "survived": True, "seconds": 0.2},
    {"kind": "job", "engine": "lxd", "verb": "rm", "rounds": 1, "jobs": 60, "lost": 0},
    {"kind": "job", "engine": "lxd", "verb": "rm", "rounds": 2, "jobs": 120, "lost": 1},
    {"kind": "suggestion", "error": "no-node", "command": "gpuprov list", "helped": True},
    {"kind": "suggestion", "error": "spec", "command": "gpuprov up", "helped": False, "where": "lxd"},
]
LINES = (
    "| lxd | `cluster up` | 2 of 3 | 3.0 s (2.0 to 4.0) |",
    "| all |  | 2 of 3: SIGKILL 1 of 2, SIGKILL to the engine 1; 1 with doctor's command |  |",
    "| rm | 26 | 570 |",
    "| 2 cluster up | lxd 2 | 1 did it, 1 unchanged; or 2 did it |",
    "| the power is cut | 10 s |",
    "| lxd, docker | up | 700 | 0 |",
    "| the host key is a FIFO; the time limit is ignored | 1 | 0 of 1 |",
    "| the probe never ends | 1 |  |",
    "| all 3 kinds | 3 | 0 of 2 |",
    "| a FIFO | 1 of 2 | 1 | 0.30 s |",
    "| all 1 states | 1 of 2 | 1 | 0.30 s |",
    "| lxd | `rm` | 3 | 180 | 1 |",
    "| all |  | 3 | 180 | 1 |",
    "| fake | 1 | 1 of 1 | none |",
    "| lxd | 1 | 0 of 1 | `gpuprov up` (spec) |",
)


def test_the_page_has_a_place_for_every_table_and_keeps_the_rest() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in TABLES:
        assert page.count(f"<!-- {name} -->") == page.count(f"<!-- /{name} -->") == 1
    written = replace(page, LEDGER, "A machine.")
    for line in LINES:
        assert f"\n{line}\n" in written
    assert replace(written, LEDGER, "A machine.") == written
    assert replace(page, [], "A machine.") == page


def test_what_tests_enter_into_the_ledger_has_a_table() -> None:
    entered = {
        call.args[0].value
        for path in TESTS.rglob("*.py")
        if "ledger.add" in (text := path.read_text(encoding="utf-8"))
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("ledger.add")
        if isinstance(call.args[0], ast.Constant)
    }
    assert {"kill", "race"} <= entered <= {kind for kind, _ in TABLES.values()}


def test_a_page_without_a_place_is_told() -> None:
    with pytest.raises(SystemExit, match="no place for kills"):
        replace("nothing", LEDGER, "A machine.")
