"""What `cluster up` and its plan show of a cluster that is there, and of one without a batch system."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Typed

UP = ("cluster", "up", "-n", "2", "--gpu-mode", "simulated", "--no-verify")


def test_a_second_run_prints_the_table_once(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed.world.begin_with(2)
    shown = typed(UP, capsys)
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("NODE")] == ["NODE"]
    assert sum(line.startswith("c000 ") for line in shown.splitlines()) == 1
    assert "unchanged" in shown


@pytest.mark.parametrize(("role", "phases"), [("slurm", 1), ("plain", 0)])
def test_a_plain_cluster_has_no_phase_of_slurm(
    typed: Typed, capsys: pytest.CaptureFixture[str], role: str, phases: int
) -> None:
    typed.world.begin_with(1)
    typed.world.empty()
    capsys.readouterr()
    assert main([*UP, "--role", role], host=typed.world.host) == 0
    said = capsys.readouterr().err
    assert sum(line.startswith("nodes ...") for line in said.splitlines()) == 1
    assert sum(line.startswith("slurm ...") for line in said.splitlines()) == phases


def test_a_plan_says_that_nodes_from_create_node_stay_unless_they_are_pruned(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.world.up(2)
    typed.world.create("web", role="plain")
    plan = ("cluster", "plan", "-n", "1", "--gpu-mode", "simulated")
    keep = "keep node web (from create-node); --prune removes it"
    assert [line for line in typed(plan, capsys).splitlines() if "node" in line] == ["remove node c001", keep]
    assert json.loads(typed(("--json", *plan), capsys))["kept"] == [keep]
    pruned = json.loads(typed(("--json", *plan, "--prune"), capsys))
    assert (pruned["plan"][:2], pruned["kept"]) == (["remove node c001", "remove node web"], [])
    assert typed.world.names == ["c000", "c001", "web"]
