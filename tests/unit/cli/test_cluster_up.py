"""What `cluster up` shows of a cluster that is there, and of one without a batch system."""

from __future__ import annotations

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
