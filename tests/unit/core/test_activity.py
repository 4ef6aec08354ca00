from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.activity import WORK_LINE, Activity, find_work_below, grown, parse_work

if TYPE_CHECKING:
    from pathlib import Path

SAID = """12
/proc/1/stat:1 (init) S 0 1 1 0 -1 0 0 0 0 0 3 4 5 6 20 0 1 0 100 0 0
/proc/7/stat:7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 10 20 0 0 20 0 1 0 4711 0 0
/proc/12/stat:12 (grep) R 0 12 12 0 -1 0 0 0 0 0 900 900 0 0 20 0 1 0 9999 0 0
/proc/1/io:rchar: 100
/proc/7/io:rchar: 1000
/proc/7/io:wchar: 500
"""


def test_what_the_processes_of_a_node_do_but_for_the_one_that_tells_it() -> None:
    assert parse_work(SAID) == {
        (1, 100): Activity(ticks=18, moved_bytes=100),
        (7, 4711): Activity(ticks=30, moved_bytes=1500),
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "1\n/proc/7/stat:8 (x) S 1 7 7 0 -1 0 0 0 0 0 10 20 0 0 20 0 1 0 4711",
        "1\n/proc/7/stat:7 (x) S 1 2",
        "1\n/proc/7/stat:7 (x) S 1 7 7 0 -1 0 0 0 0 0 - 20 0 0 20 0 1 0 4711",
        "1\n/proc/7/io:rchar: " + "9" * 5000,
        "1\n\x1b[0m/etc/passwd:root",
    ],
)
def test_what_is_no_process_is_passed_over(text: str) -> None:
    assert parse_work(text) == {}


def test_only_those_count_that_were_there_before_and_did_more() -> None:
    before = {(1, 1): Activity(ticks=10, moved_bytes=10), (2, 1): Activity(ticks=9), (3, 1): Activity(ticks=5)}
    now = {(1, 1): Activity(ticks=15, moved_bytes=30), (2, 8): Activity(ticks=99), (3, 1): Activity(ticks=4)}
    assert grown(before, now) == Activity(ticks=5, moved_bytes=20)


def test_a_shell_tells_it_of_this_machine() -> None:
    argv = [sys.executable, "-c", "print(sum(range(3_000_000)), flush=True); input()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one:
        assert one.stdout is not None
        one.stdout.readline()
        said = subprocess.run(["sh", "-c", WORK_LINE], capture_output=True, text=True, check=False).stdout
        found = {pid: done for (pid, _), done in parse_work(said).items()}
        assert found[one.pid].ticks > 0
        assert found[one.pid].moved_bytes > 0
        assert int(said.partition("\n")[0]) not in found
        one.communicate(b"\n")


def test_work_is_that_of_the_grandchildren(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; child = subprocess.Popen(['sh', '-c', 'sleep 60 & echo $! >$0; wait', sys.argv[1]]);"
        "sys.stdin.read(1); child.terminate()"
    )
    pid = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", code, str(pid)], stdin=subprocess.PIPE) as one:
        while not (pid.exists() and pid.read_text()):
            time.sleep(0.01)
        assert {found for found, _ in find_work_below(one.pid)} == {int(pid.read_text())}
        subprocess.run(["kill", pid.read_text().strip()], check=True)
        one.communicate(b"\n")
