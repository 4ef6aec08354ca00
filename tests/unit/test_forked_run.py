"""Tests in several processes: each runs once, and whatever becomes of a process, no test is lost."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked_run import divide, queue_of, taken

ROOT = Path(__file__).parents[2]
SHARED = """
import os, time
from pathlib import Path
import pytest
def test_prints(capsys, tmp_path):
    print("heard"); time.sleep(0.2)
    assert capsys.readouterr().out == "heard\\n" and not list(tmp_path.iterdir())
@pytest.mark.parametrize("number", range(5))
def test_passes(number): Path("ran").open("a").write(f"{__name__} {number}\\n")
"""
BAD = """
import os, signal, pytest
def test_fails(): assert 1 == 2
def test_skips(): pytest.skip("why")
def test_dies(): os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("sizes", "count", "parts"),
    [
        ([1, 1, 1, 1], 2, [[0, 1], [2, 3]]),
        ([10, 1, 1], 2, [[0], [1, 2]]),
        ([1, 10, 1], 3, [[0, 1], [], [2]]),
        ([5], 3, [[0], [], []]),
    ],
)
def test_each_process_has_modules_in_a_row(sizes: list[int], count: int, parts: list[list[int]]) -> None:
    assert divide(sizes, count) == parts


def test_each_number_is_taken_once() -> None:
    queue = queue_of([0, 1, 2])
    first, second = taken(queue), taken(queue)
    assert [next(first), next(second), *first] == [0, 1, 2]
    assert list(second) == []


def run(folder: Path, *words: str) -> tuple[int, str]:
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "tests.forked_run", "--rootdir", str(folder), *words]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "TMPDIR": str(folder)}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_all_that_was_collected_is_run_once(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(SHARED)
    status, said = run(tmp_path, "--processes", "3", "--junitxml", "tests.xml")
    assert (status, re.search(r"\d+ passed", said)) != (1, None), said
    assert "24 passed" in said
    ran = (tmp_path / "ran").read_text().splitlines()
    assert len(ran) == len(set(ran)) == 20
    assert (tmp_path / "tests.xml").read_text().count("<testcase ") == 24


@pytest.mark.slow
def test_the_tests_of_a_process_that_dies_fail_by_name(tmp_path: Path) -> None:
    (tmp_path / "test_bad.py").write_text(BAD + "def test_comes_after(): pass\n")
    (tmp_path / "test_good.py").write_text(SHARED)
    status, said = run(tmp_path, "--processes", "2")
    assert status == 1
    assert "assert 1 == 2" in said
    assert "the process that ran it ended with status -9" in said
    assert "3 failed, 6 passed, 1 skipped" in said


@pytest.mark.slow
def test_the_first_failure_can_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_bad.py").write_text("def test_fails(): assert 1 == 2\n")
    (tmp_path / "test_long.py").write_text("import time\ndef test_long(): time.sleep(60)\n")
    status, said = run(tmp_path, "--processes", "2", "--maxfail", "1")
    assert status == 1
    assert "stopping after 1 failures" in said
    assert "1 failed in" in said
