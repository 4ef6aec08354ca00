"""What systems see to themselves; no other module of jobs compares their names."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

from gpuprov.shapes.job_run import System
from gpuwork.jobs.slurm import Slurm
from gpuwork.jobs.system import TRAITS
from gpuwork.jobs.workers import Workers
from tests.sources import nodes_of, parsed

pytestmark = pytest.mark.slow

GPUWORK = Path(__file__).parents[3] / "gpuwork"


def test_each_system_has_traits() -> None:
    assert list(TRAITS) == list(get_args(System)) == [Slurm.name, Workers.name]
    assert TRAITS["slurm"].limits_runs
    assert not TRAITS["workers"].has_chunks


def test_nobody_compares_the_name_of_a_system() -> None:
    found = [
        f"{path.name}: {ast.unparse(node)}"
        for path in GPUWORK.rglob("*.py")
        for node in nodes_of(parsed(path))
        if isinstance(node, ast.Compare)
        and any(isinstance(side, ast.Constant) and side.value in TRAITS for side in (node.left, *node.comparators))
    ]
    assert found == []
