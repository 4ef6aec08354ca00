"""What slurmctld runs when it has taken control: jobs that began without their GPU, and GPUs that count as taken."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from gpuprov.roles.slurm.facts import slurm_facts
from gpuprov.roles.slurm.files import handover_files
from gpuprov.shapes.cluster_spec import ClusterSpec, SlurmSpec

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
JOB = "JobId={} JobName=train JobState=RUNNING Partition=gpu Nodes=c002 CPU_IDs=0 GRES={} MemPerTres="
WITHOUT, WITH = "gpu:h100:0(IDX:)", "gpu:h100:1(IDX:0)"
SPEC = ClusterSpec(slurm=SlurmSpec(backup="c001"), share=True)
PASSING = slurm_facts()["passing"]
ANEW = [f"create partitionname={PASSING} hidden=yes state=down", f"delete partitionname={PASSING}"]
REQUEUE = ': >"$ROOT/jobs"'
PROGRAMS = {  # an hour goes by whenever somebody asks
    "scontrol": f'echo "$*" >>"$ROOT/asked"; case $* in *job) cat "$ROOT/jobs" ;; req*) {REQUEUE} ;; esac',
    "date": 'echo x >>"$ROOT/hours"; echo $(($(wc -l <"$ROOT/hours") * 3600))',
    "seq": "echo 1 2",
    "sleep": '[ "$1" != 30 ] || [ ! -e "$ROOT/ends" ] || : >"$ROOT/jobs"',
}
LIMIT_S = 30


def took_over(root: Path, *jobs: str) -> list[str]:
    """What it asks Slurm's controller for, but for jobs, until it ends."""
    for name, text in PROGRAMS.items():
        (root / name).write_text(f"#!/bin/sh\n{text}\n")
        (root / name).chmod(0o755)
    (root / "jobs").write_text("".join(f"{job}\n" for job in jobs))
    (file,) = [one for one in handover_files(SPEC) if one.path.endswith("/took-over")]
    script = file.content.decode().replace("/var/lib/slurm/slurmctld/in-control", str(root / "in-control"))
    # what it leaves running has none of its own output, so the end is seen by its process group
    env = {"PATH": f"{root}:{os.environ['PATH']}", "ROOT": str(root)}
    done = subprocess.Popen(["/bin/sh", "-c", script], env=env, start_new_session=True)
    assert done.wait(LIMIT_S) == 0
    assert (root / "in-control").read_text() == f"{os.getpid()}\n"
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        try:
            os.killpg(done.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("it still runs")
    return [line for line in (root / "asked").read_text().splitlines() if "show job" not in line]


def test_gpus_are_counted_anew_where_all_jobs_have_theirs(tmp_path: Path) -> None:
    assert took_over(tmp_path, JOB.format(7, WITH)) == ANEW


def test_a_job_without_its_gpu_goes_back_first(tmp_path: Path) -> None:
    asked = took_over(tmp_path, JOB.format(7, WITH), JOB.format(8, WITHOUT))
    assert asked == ["requeue 8", "update jobid=8 starttime=now", *ANEW]


def test_one_that_cannot_go_back_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROGRAMS, "scontrol", PROGRAMS["scontrol"].replace(REQUEUE, "exit 1"))
    (tmp_path / "ends").touch()
    asked = took_over(tmp_path, JOB.format(8, WITHOUT))
    assert [line for line in asked if line != "requeue 8"] == ANEW


def test_but_no_longer_than_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROGRAMS, "scontrol", PROGRAMS["scontrol"].replace(REQUEUE, "exit 1"))
    assert set(took_over(tmp_path, JOB.format(8, WITHOUT))) == {"requeue 8"}
    assert len((tmp_path / "hours").read_text().splitlines()) == 1 + 24
