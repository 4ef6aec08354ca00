"""What the README of the example says is typed, from files to results."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from gpuprov.cli.main import main

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Typed

ROOT = Path(__file__).parents[3]
README = (ROOT / "examples/anneal/README.md").read_text()


@pytest.mark.slow
def test_the_example_goes_from_files_to_results(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (command,) = re.findall(r"^    gpuprov (anneal run .*)$", README, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert main([*shlex.split(command), "--gpu-mode", "simulated"], host=typed.world.host) == 0
    said = capfd.readouterr()
    assert "SIMULATED" in said.out
    assert "ackley: best" in said.err, "the best value is shown while chains run"
    with np.load(tmp_path / "results/ackley/best.npz") as best:
        assert 0 <= best["values"][0] < 0.1, "the known answer"
        assert np.abs(best["states"]).max() < 0.1
    plot = (tmp_path / "best.svg").read_text()
    assert plot.count("clip-path=") >= 16, "a line for each chain"
    assert "ackley: best value of 16 chains SIMULATED" in plot
