"""A backup for Slurm's controller, whose node is killed while jobs run and wait: none is lost, and new ones start."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

pytestmark = pytest.mark.long
TAKEOVER_S = 150  # Slurm's 30, its commands' own patience, and a machine that is busy
WRITTEN_S = 8  # Slurm writes its queue every 5 s
SLURM_UID = 64030
STATE = "/var/lib/gpuprov-state"


class Pair:
    """A cluster of three nodes: the controller, its backup, and one on which jobs run."""

    def __init__(self, gpuprov: Gpuprov, place: Place) -> None:
        self.gpuprov, self.place = gpuprov, place
        self.controller, self.backup, self.worker = (place.node(number) for number in range(3))
        self.shared = Path("/srv/gpuprov") / place.cluster
        self.folder = Path(f"{self.shared}.slurm")
        self.file = gpuprov.folder / "backup.yaml"

    def write(self, backup: str) -> None:
        text = self.place.spec(count=3, gpus="per_node: 1", share="true")
        self.file.write_text(f"{text}slurm: {{backup: {backup}}}\n")

    def up(self, *argv: str, expect: int = 0) -> Finished:
        return self.gpuprov("cluster", "up", "-f", str(self.file), "--no-verify", *argv, expect=expect)

    def __call__(self, *argv: str, expect: int = 0) -> Finished:
        words = len(argv[:2]) if argv[0] == "jobs" else 1
        return self.gpuprov(*argv[:words], "--cluster", self.place.cluster, *argv[words:], expect=expect)

    def batch(self, script: str) -> str:
        """The id of a job of the account on the one node that is not killed, with its only GPU."""
        command = ("runuser", "-u", "work", "--", "sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp")
        return self.in_backup(
            *command, f"--nodelist={self.worker}", "--gres=gpu:1", "--exclusive", "--wrap", script
        ).stdout.strip()

    def slurm_word(self, job: str, *, at: str = "") -> str:
        return self.in_backup("squeue", "-h", "-t", "all", "-j", job, "-o", "%T", at=at).stdout.strip()

    def wait_for(self, job: str, word: str) -> None:
        wait = Wait(what=f"job {job} to be {word}", timeout_s=TAKEOVER_S, fix="look at the queue", interval_s=1)
        wait.until(lambda: self.slurm_word(job), lambda found: found == word)

    def in_backup(self, *argv: str, at: str = "") -> subprocess.CompletedProcess[str]:
        command = ["lxc", "exec", at or self.backup, "--", *argv]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=TAKEOVER_S)

    def wait_for_takeover(self) -> None:
        wait = Wait(what="the backup to take over", timeout_s=TAKEOVER_S, fix="scontrol ping", interval_s=1)
        wait.until(lambda: self.in_backup("timeout", "20", "squeue", "-h").returncode, lambda code: not code)

    def rows(self) -> dict[str, dict[str, Any]]:
        found = json.loads(self.gpuprov("--json", "cluster", "status", self.place.cluster).stdout)
        return {row["name"]: row for row in found["nodes"]}


@pytest.fixture(scope="module")
def pair(gpuprov: Gpuprov, place: Place, lxc: object) -> Iterator[Pair]:  # noqa: ARG001
    made = Pair(gpuprov, place)
    shutil.rmtree(f"/srv/gpuprov/{place.cluster}", ignore_errors=True)  # of a killed run
    made.write(made.backup)
    made.up()
    yield made
    gpuprov("cluster", "down", place.cluster, "--force", "--purge", "--yes")
    assert not made.folder.exists(), "the queue goes with its cluster"


def test_the_state_is_the_controllers_alone(pair: Pair) -> None:
    look = pair.folder.stat()
    assert oct(look.st_mode & 0o777) == "0o700"
    owner = pair.gpuprov.in_node(pair.controller, "stat", "-c", "%u:%a", STATE).strip()
    assert owner == f"{SLURM_UID}:700"
    assert pair.gpuprov.in_node(pair.controller, "ls", STATE) == pair.gpuprov.in_node(pair.backup, "ls", STATE)
    pair.gpuprov("exec", pair.worker, "--", "ls", STATE, expect=2)
    pair.gpuprov("exec", pair.controller, "--", "runuser", "-u", "work", "--", "ls", STATE, expect=2)
    assert pair.up().all.count("renew") == 0


def test_no_job_is_lost_with_the_controllers_node(pair: Pair) -> None:
    runs, waits = pair.batch("sleep 100; touch /shared/ran"), pair.batch("touch /shared/waited")
    pair.wait_for(runs, "RUNNING")
    assert pair.slurm_word(waits) == "PENDING"
    time.sleep(WRITTEN_S)
    subprocess.run(["lxc", "stop", "--force", pair.controller], check=True, timeout=120)
    pair.wait_for_takeover()
    assert pair.slurm_word(runs) == "RUNNING", "jobs on other nodes go on"
    assert pair.slurm_word(waits) == "PENDING", "the queue is there"
    job = pair("submit", "--no-project", "--", "touch", "/shared/submitted").stdout.strip()
    pair("jobs", "wait", job)
    assert (pair.shared / "submitted").exists()
    assert pair.rows()[pair.worker]["slurm"] in ("allocated", "mixed")
    for word in (runs, waits):
        pair.wait_for(word, "COMPLETED")
    assert (pair.shared / "ran").exists()
    assert (pair.shared / "waited").exists()
    busy = pair.batch("sleep 120")
    pair.wait_for(busy, "RUNNING")
    pair.gpuprov("start", pair.controller)
    assert "DOWN" not in pair.gpuprov.in_node(pair.controller, "scontrol", "ping")
    assert pair.slurm_word(busy, at=pair.controller) == "RUNNING", "it has the queue again"
    assert {row["health"] for row in pair.rows().values()} == {"ok"}
    assert pair.up().all.count("renew") == 0
    pair.gpuprov.in_node(pair.controller, "scancel", busy)


def test_the_controllers_node_is_stopped_and_the_backup_takes_over(pair: Pair) -> None:
    pair.gpuprov("stop", pair.controller)
    pair.wait_for_takeover()
    late = pair.batch("touch /shared/late")
    pair.wait_for(late, "COMPLETED")
    pair.gpuprov("stop", pair.worker)
    pair.gpuprov("start", pair.controller, pair.worker)
    subprocess.run(["lxc", "stop", "--force", pair.controller], check=True, timeout=120)
    pair.wait_for_takeover()
    pair.gpuprov("start", pair.controller)
    assert {row["health"] for row in pair.rows().values()} == {"ok"}


def test_the_backup_stays_and_the_key_is_turned_off_without_jobs(pair: Pair) -> None:
    assert "backup" in pair.gpuprov("rm", pair.backup, expect=2).all
    job = pair.batch("sleep 300")
    pair.wait_for(job, "RUNNING")
    pair.write("null")
    assert "there are jobs on" in pair.up(expect=2).all
    pair.gpuprov.in_node(pair.controller, "scancel", job)
    pair.up("--drain", "2m")
    pair.gpuprov("exec", pair.backup, "--", "ls", STATE, expect=2)
    assert "backup" not in pair.gpuprov.in_node(pair.controller, "scontrol", "ping")
    pair.write(pair.backup)
    pair.up()
    assert pair.gpuprov.in_node(pair.backup, "scontrol", "ping").count(" is UP") == 2
    assert {row["health"] for row in pair.rows().values()} == {"ok"}
