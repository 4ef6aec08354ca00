"""Slurm's accounting in real nodes: sums right to the second, whoever is killed, and figures that outlive a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.names import fold
from gpuprov.core.waiting import Wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place

LIMIT_S = 300
MANY = 1000
AS_WORK = ("runuser", "-u", "work", "--")
SLURM_UID = 64030


class Counting:
    """A cluster of two nodes with accounting."""

    def __init__(self, gpuprov: Gpuprov, place: Place) -> None:
        self.gpuprov, self.place = gpuprov, place
        self.controller = place.node(0)
        self.folder = Path(f"/srv/gpuprov/{place.cluster}.accounting")
        self.file = gpuprov.folder / "accounting.yaml"
        self.file.write_text(f"{place.spec(share='true')}accounting: on\n")

    def up(self) -> str:
        return self.gpuprov("cluster", "up", "-f", str(self.file), "--no-verify").all

    def down(self, *argv: str) -> str:
        return self.gpuprov("cluster", "down", self.place.cluster, "--yes", *argv).all

    def run(self, *argv: str) -> str:
        return self.gpuprov.in_node(self.controller, *argv)

    def submit(self, line: str, *options: str) -> str:
        command = (*AS_WORK, "sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", "--gres=gpu:1", *options)
        return self.run(*command, "--wrap", line).strip()

    def usage(self, *argv: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(
            self.gpuprov("--json", "usage", "--cluster", self.place.cluster, *argv).stdout
        )
        return told

    def sacct(self) -> list[list[str]]:
        """Number, seconds, state, resources and end of each job, of this and of earlier clusters of the name."""
        fields = "JobID,ElapsedRaw,State,AllocTRES,End"
        asked = ("sacct", "-a", "-X", "-D", "-P", "-n", "-S", "2026-01-01", "-o", fields)
        return [line.split("|") for line in self.run(*asked).splitlines()]

    def seconds(self) -> int:
        """GPUs times seconds, as sacct tells it."""
        return sum(
            int(seconds) * int(tres.partition("gres/gpu=")[2].partition(",")[0] or 0)
            for _, seconds, _, tres, _ in self.sacct()
        )

    def completed(self) -> int:
        """How many jobs are on record with their end.

        Without it, one may be COMPLETED for seconds: where slurmdbd was away, slurmctld first hands in that such a job
        began, in the state that it has by now, and on another connection, up to ten seconds later, that it ended.
        sacct counts it up to now meanwhile: so two questions, one after the other, gave 83 s and 104 s.
        """
        return sum(state == "COMPLETED" and end != "Unknown" for _, _, state, _, end in self.sacct())

    def wait_until_recorded(self, jobs: int) -> None:
        wait = Wait(what=f"{jobs} jobs to be on record", timeout_s=LIMIT_S, fix="sacct -a", interval_s=1)
        wait.until(self.completed, lambda found: found >= jobs)

    def wait_for_slurm(self, jobs: int) -> None:
        """Until slurmctld says that so many jobs have ended, which it knows before slurmdbd does."""
        wait = Wait(what=f"{jobs} jobs to end", timeout_s=LIMIT_S, fix="squeue", interval_s=1)
        asked = ("squeue", "-h", "-t", "completed", "-o", "%A")
        wait.until(lambda: self.run(*asked).split(), lambda found: len(found) >= jobs)


@pytest.fixture(scope="module")
def counting(gpuprov: Gpuprov, place: Place, lxc: object) -> Iterator[Counting]:  # noqa: ARG001
    made = Counting(gpuprov, place)
    made.up()
    yield made
    made.down("--force", "--purge")
    assert not made.folder.exists(), "the figures go where that is said"


def test_sums_are_right_to_the_second_also_where_the_daemons_are_killed(counting: Counting) -> None:
    for seconds in (1, 2, 3) * 4:
        counting.submit(f"sleep {seconds}")
    counting.submit("sleep 1", "--array=0-5")
    counting.run("sh", "-c", "sleep 2; pkill -KILL -x slurmdbd; pkill -KILL -x mariadbd")
    counting.submit("sleep 2", "--nodes=2")
    counting.submit("sleep 1")
    counting.wait_for_slurm(20)
    told = counting.usage()  # waits for the records itself
    counting.wait_until_recorded(20)
    assert told["gpu_seconds"] == counting.seconds() >= 12 * 2 + 6 + 4 + 1
    assert [(row["name"], row["jobs"]) for row in told["rows"]] == [("work", 20)]
    assert (told["accounting"], told["simulated"], told["notes"]) == (True, True, [])
    nodes = {row["name"]: row["jobs"] for row in counting.usage("--by", "node")["rows"]}
    assert nodes[fold([counting.place.node(0), counting.place.node(1)])] == 1
    assert sum(nodes.values()) == 20
    assert {row["name"] for row in counting.usage("--by", "account")["rows"]} == {"work"}
    assert counting.usage("--since", "1h")["gpu_seconds"] == counting.seconds(), "all of it was in the last hour"
    assert counting.usage("--until", "1d")["rows"] == []


def test_jobs_of_verify_are_told_apart(counting: Counting) -> None:
    counting.run("srun", "--job-name=other", "--gres=gpu:1", "true")
    counting.gpuprov("verify", "--cluster", counting.place.cluster, counting.controller)
    wait = Wait(what="both jobs to be on record", timeout_s=LIMIT_S, fix="sacct -a", interval_s=1)
    wait.until(lambda: {row["name"] for row in counting.usage()["rows"]}, {"(verify)", "root"}.issubset)
    jobs = [row for row in counting.usage("--by", "job")["rows"] if row["person"] == "(verify)"]
    assert [row["jobs"] for row in jobs] == [1]


def test_the_files_are_slurm_s_alone_and_there_is_no_password(counting: Counting) -> None:
    look = counting.folder.stat()
    assert oct(look.st_mode & 0o777) == "0o700"
    conf = "/etc/slurm/slurmdbd.conf"
    assert counting.run("stat", "-c", "%u:%a", conf).strip() == f"{SLURM_UID}:600"
    assert "StoragePass" not in counting.run("cat", conf)
    counting.gpuprov.in_node(counting.controller, *AS_WORK, "mariadb", "-u", "slurm", "-e", "select 1", expect=1)
    assert counting.run("ss", "-lntH").count(":3306") == 0
    counting.gpuprov.in_node(counting.place.node(1), "ls", conf, expect=2)


def test_figures_outlive_the_cluster_and_jobs_that_it_ended_have_an_end(counting: Counting) -> None:
    counting.submit("sleep 1000")
    wait = Wait(what="a job to run", timeout_s=LIMIT_S, fix="squeue", interval_s=1)
    wait.until(lambda: counting.run("squeue", "-h", "-t", "running", "-o", "%A"), lambda said: bool(said.strip()))
    said = counting.down("--force")
    assert f"kept {counting.folder}, the figures of Slurm's accounting" in said
    counting.up()
    told = counting.usage()
    assert told["notes"] == [], "every job has an end"
    assert told["gpu_seconds"] == counting.seconds() > 0
    before = told["gpu_seconds"]
    counting.submit("sleep 1")
    wait = Wait(what="a job of the new cluster to count", timeout_s=LIMIT_S, fix="sacct -a", interval_s=1)
    wait.until(lambda: int(counting.usage()["gpu_seconds"]), lambda seconds: seconds > before)


def test_slurm_goes_on_without_slurmdbd(counting: Counting) -> None:
    counting.run("systemctl", "stop", "slurmdbd", "slurm-database")
    counting.run("systemctl", "restart", "slurmctld")
    counting.run(*AS_WORK, "srun", "--chdir=/tmp", "--gres=gpu:1", "true")
    counting.run("systemctl", "start", "slurmdbd")
    wait = Wait(what="the messages to reach slurmdbd", timeout_s=LIMIT_S, fix="sdiag", interval_s=1)
    wait.until(lambda: counting.usage()["notes"], lambda notes: notes == [])


def test_another_version_begins_with_copies(counting: Counting) -> None:
    folder = "/var/lib/gpuprov-accounts"
    counting.run("systemctl", "stop", "slurmdbd", "slurm-database")
    counting.run("sh", "-c", f"echo 1.2.3 >{folder}/database-version; echo 21.08.5 >{folder}/slurmdbd-version")
    before = len(counting.run("ls", f"{folder}/copies").split())
    counting.run("systemctl", "start", "slurmdbd")
    there = counting.run("sh", "-c", f"cd {folder}/copies; ls; zcat dump-of-slurmdbd-21.08.5-*.sql.gz | grep -c INSERT")
    assert "files-of-mariadb-1.2.3-" in there
    assert "dump-of-slurmdbd-21.08.5-" in there
    assert int(there.split()[-1]) > 0
    counting.run("systemctl", "restart", "slurmdbd")
    assert len(counting.run("ls", f"{folder}/copies").split()) == before + 2


@pytest.mark.long
def test_a_job_whose_node_dies_does_not_run_for_ever(counting: Counting) -> None:
    node = counting.place.node(1)
    job = counting.submit("sleep 1000", f"--nodelist={node}", "--no-requeue")
    wait = Wait(what="the job to run", timeout_s=LIMIT_S, fix="squeue", interval_s=1)
    wait.until(lambda: counting.run("squeue", "-h", "-j", job, "-t", "running"), lambda said: bool(said.strip()))
    counting.gpuprov.in_node(node, "sh", "-c", "systemctl stop slurmd; pkill -KILL slurmstepd; true")
    wait = Wait(what="the job to be given up", timeout_s=LIMIT_S, fix="squeue", interval_s=2)
    wait.until(lambda: counting.run("squeue", "-h", "-j", job, "-t", "node_fail"), lambda said: bool(said.strip()))
    counting.gpuprov.in_node(node, "systemctl", "start", "slurmd")
    told = counting.usage()
    assert (told["notes"], told["gpu_seconds"]) == ([], counting.seconds())
    assert "No runaway jobs" in counting.run("sh", "-c", "sacctmgr show runawayjobs 2>&1 </dev/null")


@pytest.mark.long
def test_a_thousand_jobs_are_counted_to_the_second(counting: Counting) -> None:
    before = counting.completed()
    counting.submit("sleep 1", f"--array=0-{MANY - 1}")
    counting.run("sh", "-c", "sleep 60; pkill -KILL -x slurmdbd")
    wait = Wait(what="the array to end", timeout_s=4 * LIMIT_S + MANY, fix="squeue", interval_s=5)
    wait.until(lambda: counting.run("squeue", "-h"), lambda said: not said.strip())
    counting.wait_until_recorded(before + MANY)
    assert counting.usage()["gpu_seconds"] == counting.seconds()


@pytest.mark.long
def test_jobs_go_on_while_the_disk_is_full_and_are_on_record_afterwards(counting: Counting) -> None:
    """The last one here: the folder is a small disk from now on."""
    folder, before = "/var/lib/gpuprov-accounts", counting.completed()
    counting.run("systemctl", "stop", "slurmdbd", "slurm-database")
    small = "mount -t tmpfs -o size=300m,uid=64030,gid=64030,mode=700 tmpfs /mnt"
    counting.run("sh", "-c", f"{small} && cp -a {folder}/. /mnt/ && mount --bind /mnt {folder}")
    counting.run("systemctl", "start", "slurmdbd")
    counting.run("sh", "-c", f"head -c 1G /dev/zero >{folder}/fill; sleep 3")
    counting.submit("true", "--array=0-149")
    wait = Wait(what="the array to end", timeout_s=LIMIT_S, fix="squeue", interval_s=2)
    wait.until(lambda: counting.run("squeue", "-h"), lambda said: not said.strip())
    said = counting.gpuprov("usage", "--cluster", counting.place.cluster, expect=4).all
    assert "its disk has less than 16 MiB left; jobs go on, and " in said
    assert "fix: make room on the disk of /srv" in said
    counting.run("rm", f"{folder}/fill")
    counting.wait_until_recorded(before + 150)
    told = counting.usage()
    assert (told["notes"], told["gpu_seconds"]) == ([], counting.seconds())
