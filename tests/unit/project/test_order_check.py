"""What gpuprov has `gpuwork` check on this host, by the process that does it; tests/unit/cli has every fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.project.grid_check import check_grid
from gpuprov.project.order_check import judge_order
from gpuprov.shapes.job_order import JobOrder
from gpuprov.spec.grid_order import GridOrder

pytestmark = pytest.mark.slow

GRID = Path(__file__).parents[2] / "data/grid"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user is in a folder of their own, and has Python not look there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")


def test_a_job(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    assert judge_order(JobOrder(command=("python3", "train.py")), tmp_path) == ("train.py",)
    with pytest.raises(UsageError, match="2 faults in the job; nothing was submitted"):
        judge_order(JobOrder(gpus=65, retries=-1, command=("true",)), None)


def test_words_that_are_not_utf_8_are_a_fault() -> None:
    with pytest.raises(UsageError, match="a fault in the job; nothing was submitted") as refused:
        judge_order(JobOrder(command=("tr\udcffue",)), None)
    assert refused.value.evidence == "job: has text that is not UTF-8"


def test_a_grid() -> None:
    found = check_grid(GridOrder(first_only=True), GRID, None)
    assert "job.py" in {Path(name).name for name in found.files}
    assert found.combinations is not None
    assert len(found.combinations) == 1
    with pytest.raises(UsageError, match="a fault in the job; nothing was submitted"):
        check_grid(GridOrder(), GRID, JobOrder(gpus=65))


def test_a_program_that_does_not_run_here(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(HostNotReady, match="cannot be checked on this machine") as refused:
        judge_order(JobOrder(command=("true",)), None, python=str(python))
    assert refused.value.evidence == "no such module"
    assert refused.value.fix == f"install gpuprov again, for {python}"
