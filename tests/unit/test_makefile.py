"""The commands of the Makefile that take too long to be run here are at least understood."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEDGER = "build/reliability.jsonl"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["test-long", "reliability"])
def test_a_ledger_that_is_there_is_not_taken_for_tests(target: str, tmp_path: Path) -> None:
    shown = subprocess.run(["make", "--dry-run", target], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    command = re.findall(r"-m pytest ([^;\n]*)", shown)[-1]
    ledger = tmp_path / "ledger.jsonl"  # as the unit tests before it have left it
    ledger.touch()
    words = [str(ledger) if word == LEDGER else word for word in shlex.split(command)]
    argv = [sys.executable, "-m", "pytest", *words, "--collect-only", "--quiet", "--quiet"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert str(ledger) in words
    assert "tests/e2e" in done.stdout
