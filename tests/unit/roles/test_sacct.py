"""What nodes answer where submitit and Hydra's launcher ask `sacct`, and whom they leave everything else to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "roles/slurm/files/node/usr/local/bin/sacct"
ASKED = ("-o", "JobID,State,NodeList", "--parsable2")  # by submitit 1.5, and then `-j` for each job
LISTED = "11|CANCELLED|c001\n12_0|RUNNING|c000\n12_[1-3]|PENDING|\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The script with a `squeue` and an own `sacct` of Slurm's that say how they were called."""
    (tmp_path / "sacct").write_text(SCRIPT.read_text().replace("/usr/bin/sacct", str(tmp_path / "own")))
    (tmp_path / "squeue").write_text(f'#!/bin/sh\necho "$SLURM_BITSTR_LEN $*" >{tmp_path}/asked\nprintf "{LISTED}"\n')
    (tmp_path / "own").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 3\n')
    for path in tmp_path.iterdir():
        path.chmod(0o755)
    return tmp_path


def ask(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run([folder / "sacct", *argv], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("jobs", "named"), [(("11",), "11"), (("11", "12", "13"), "11,12,13")])
def test_slurm_s_list_of_jobs_is_answered_in_sacct_s_form(folder: Path, jobs: tuple[str, ...], named: str) -> None:
    done = ask(folder, *ASKED, *(word for job in jobs for word in ("-j", job)))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"JobID|State|NodeList\n{LISTED}"
    limit, *options = (folder / "asked").read_text().split()
    assert limit == "0", "an array's numbers are not cut off"
    assert options == ["--all", "--noheader", "--states=all", f"--jobs={named}", "--format=%i|%T|%N"]


@pytest.mark.parametrize("argv", [(), ("-j", "11"), ("--help",), ("-o", "JobID", "--parsable2", "-j", "1 2"), ASKED])
def test_whatever_else_is_asked_is_slurm_s(folder: Path, argv: tuple[str, ...]) -> None:
    done = ask(folder, *argv)
    assert done.returncode == 3
    assert done.stdout.splitlines() == [*argv] or not argv
    assert not (folder / "asked").exists()
