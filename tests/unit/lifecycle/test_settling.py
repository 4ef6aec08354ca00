"""What a controller runs before its daemon restarts, with commands that play Slurm's."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuprov.roles.slurm.facts import settling_script

if TYPE_CHECKING:
    from pathlib import Path

# The number of looks at a busy controller is the number of times that it sleeps.
SLURM = {
    "scontrol": '[ "$1" != ping ] || exit "$DEAD"; echo "$@" >>told',
    "sinfo": "printf 'gpu\\nother\\ngpu\\n'",
    "sleep": "echo >>slept",
    "squeue": 'eval "$BEGAN"',
    "sdiag": '[ $(wc -l <slept) -lt 2 ] || BUSY=$QUIET; eval "$BUSY"',
}
QUIET = "printf 'Agent queue size:     0\\nAgent count:          0\\n'"
BUSY = {
    "a start waits": "printf 'Agent queue size:     3\\nAgent count:          0\\n'",
    "a start is on its way": "printf 'Agent queue size:     0\\nAgent count:          12\\n'",
    "it does not say": "exit 1",
}


def settle(folder: Path, busy: str, *, dead: int = 0, began: str = "echo 1:00:00; echo 0:03") -> tuple[list[str], int]:
    (folder / "slept").touch()
    (folder / "told").touch()
    for name, script in SLURM.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "QUIET": QUIET, "BUSY": busy, "DEAD": str(dead)}
    environment["BEGAN"] = began
    subprocess.run(["sh", "-c", settling_script()], check=True, cwd=folder, env=environment)
    return (folder / "told").read_text().splitlines(), len((folder / "slept").read_text().splitlines())


@pytest.mark.parametrize("busy", BUSY.values(), ids=BUSY)
def test_no_job_starts_and_those_that_are_starting_are_waited_for(tmp_path: Path, busy: str) -> None:
    told, slept = settle(tmp_path, busy)
    assert told == [f"update partitionname={name} state=down" for name in ("gpu", "other")]
    assert slept == 2


def test_a_controller_that_does_not_answer_is_left_alone(tmp_path: Path) -> None:
    assert settle(tmp_path, "exit 1", dead=1) == ([], 0)


@pytest.mark.parametrize("began", ["true", "echo 0:05; echo 10:04; echo 1-00:00:01"], ids=["no job", "older jobs"])
def test_where_no_job_has_begun_in_the_last_seconds_nothing_is_waited_for(tmp_path: Path, began: str) -> None:
    assert settle(tmp_path, BUSY["a start is on its way"], began=began)[1] == 0


def test_jobs_that_cannot_be_listed_may_be_starting(tmp_path: Path) -> None:
    assert settle(tmp_path, BUSY["a start waits"], began="exit 1")[1] == 2
