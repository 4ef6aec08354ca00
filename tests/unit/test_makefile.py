"""The commands of the Makefile that take too long to be run here are at least understood."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gpuprov.shapes.cluster_spec import ClusterSpec

ROOT = Path(__file__).parents[2]
LEDGER = "build/reliability.jsonl"


def make(*words: str) -> subprocess.CompletedProcess[str]:
    """What `make` says, as a user types it: one that runs these tests hands its variables to each below it."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS")}
    argv = ["make", "--no-print-directory", *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, cwd=ROOT, env=env)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["test-long", "reliability"])
def test_a_ledger_that_is_there_is_not_taken_for_tests(target: str, tmp_path: Path) -> None:
    command = re.findall(r"-m pytest ([^;\n]*)", make("--dry-run", target).stdout)[-1]
    ledger = tmp_path / "ledger.jsonl"  # as the unit tests before it have left it
    ledger.touch()
    words = [str(ledger) if word == LEDGER else word for word in shlex.split(command)]
    argv = [sys.executable, "-m", "pytest", *words, "--collect-only", "--quiet", "--quiet"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert str(ledger) in words
    assert "tests/e2e" in done.stdout


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_a_clone_that_only_root_can_run_is_told_before_the_install(mode: int, tmp_path: Path) -> None:
    clone = tmp_path / "home" / "clone"
    clone.mkdir(parents=True)
    clone.parent.chmod(mode)
    for folder in [*tmp_path.parents][:-1]:
        if not folder.stat().st_mode & 1 and folder.stat().st_uid == os.getuid():
            folder.chmod(folder.stat().st_mode | 1)  # pytest's own, which others may not enter
    tmp_path.chmod(0o755)
    said = make("who-may-run", f"HERE={clone}").stderr
    closed = f"it needs {clone}, and other users may not enter {clone.parent};"
    assert (closed in said) is (mode == 0o700), said
    shown = make("--dry-run", "up").stdout
    assert shown.index("only root will be able") < shown.index("host prepare")


def test_a_cluster_that_is_there_keeps_its_nodes() -> None:
    """Its number is what it was given; a new one has four."""
    last = shlex.split(make("--dry-run", "up").stdout.splitlines()[-1], comments=True)
    assert last[1:] == ["cluster", "up"]
    assert ClusterSpec().nodes.count == 4
