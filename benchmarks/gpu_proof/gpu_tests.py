"""tests/gpu, by pytest, counted."""

from __future__ import annotations

import re
import sys
from typing import Any

from benchmarks.gpu_proof.parts import ROOT
from gpuprov.core.errors import TimedOut
from gpuprov.core.execution import run

_WORDS = re.compile(r"(\d+) (passed|failed|skipped|error|errors|xfailed)")


def run_tests(*, limit_s: float) -> dict[str, Any]:
    """Run them; a test that is skipped says why, and a rate below what is aimed at is told."""
    argv = (sys.executable, "-m", "pytest", "tests/gpu", "--quiet", "--no-header", "-rfEsx", "--tb=short")
    wide = {"COLUMNS": "400"}  # pytest cuts its reasons to the width of the terminal
    try:
        done = run(argv, timeout_s=limit_s, cwd=ROOT, environment=wide, check=False)
    except TimedOut as error:
        return {"passed": False, "why": f"{error.what}: {error.evidence}", "counts": {}, "said": []}
    return read_summary(done.stdout, exit_code=done.exit_code)


def read_summary(output: str, *, exit_code: int) -> dict[str, Any]:
    """Return the counts of pytest's last line, and what it says of tests that did not pass."""
    lines = output.strip().splitlines()
    counts = {word: int(number) for number, word in _WORDS.findall(lines[-1] if lines else "")}
    said = [line for line in lines if line.startswith(("FAILED", "ERROR", "SKIPPED", "XFAIL"))]
    passed = exit_code == 0 and counts.get("passed", 0) > 0
    why = "" if passed else (said[0] if said else f"pytest exited with {exit_code}: {' '.join(lines[-3:])[-300:]}")
    return {"passed": passed, "why": why, "counts": counts, "said": said}
