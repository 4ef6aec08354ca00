"""Jobs on nodes that are stopped, restored or removed, in a real Slurm: spared, waited for, or ended with a word."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Ledger
    from tests.e2e.conftest import Finished, Gpuprov
    from tests.e2e.places import Place

FULL = 8  # jobs that wait when a verb begins, beside those that run
SECOND = 1
PATIENCE_S = 300.0  # a job that a node did not take is queued again for two minutes
SHORT, LONG = 1, 50  # rounds of four verbs


@dataclass(frozen=True, kw_only=True)
class Bay:
    """A cluster of three nodes."""

    gpuprov: Gpuprov
    place: Place

    @property
    def controller(self) -> str:
        return self.place.node(0)

    @property
    def victim(self) -> str:
        return self.place.node(2)

    def rows(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.gpuprov.json("cluster", "status", self.place.cluster)["nodes"]}

    def statuses(self) -> dict[str, str]:
        return {name: row["status"] for name, row in self.rows().items()}

    def slurm(self, *argv: str) -> str:
        return self.gpuprov.in_node(self.controller, *argv)

    def state(self, name: str) -> str:
        """Without the star of a node that has not answered for a moment."""
        return self.slurm("sinfo", "-h", "-N", "-n", name, "-o", "%T").strip().rstrip("*")

    def submit(self, script: str, *options: str, name: str = "train") -> str:
        """The id of a batch job."""
        common = ("--parsable", "--output=/dev/null", "--chdir=/tmp", f"--job-name={name}")
        return self.slurm("sbatch", *common, *options, "--wrap", script).strip()

    def job(self, number: str) -> str:
        """Slurm's word for a job."""
        return self.slurm("squeue", "-h", "-t", "all", "-j", number, "-o", "%T").strip()

    def start_long_job(self, *options: str) -> str:
        number = self.submit("sleep 600", "-w", self.victim, *options)
        self.wait(lambda: self.job(number) == "RUNNING", f"job {number} to run")
        return number

    def wait(self, reached: Callable[[], bool], what: str, *, seconds: float = 30.0) -> None:
        deadline_s = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < deadline_s, f"waited in vain for {what}: {self.slurm('squeue')}"
            time.sleep(0.2)

    def up(self, count: int, *options: str) -> tuple[str, ...]:
        return ("cluster", "up", "--name", self.place.cluster, "-n", str(count), "--no-verify", *options)

    def refused(self, *argv: str) -> Finished:
        """A verb that must not have done anything."""
        before = self.statuses()
        said = self.gpuprov(*argv, expect=2)
        assert self.statuses() == before
        assert "drain" not in self.slurm("sinfo", "-h", "-N", "-o", "%T")
        return said


@pytest.fixture(scope="module")
def made(gpuprov: Gpuprov, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Bay:
    spec = tmp_path_factory.mktemp("jobs") / "spec.yaml"
    spec.write_text(place.spec(count=3))
    gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
    return Bay(gpuprov=gpuprov, place=place)


@pytest.fixture
def bay(made: Bay) -> Iterator[Bay]:
    """Three idle nodes before and after each test, and an empty queue."""
    yield made
    made.slurm("scancel", "--user=root")
    made.gpuprov(*made.up(3, "--force"))
    made.wait(lambda: not made.slurm("squeue", "-h"), "the queue to be empty", seconds=60)
    assert set(made.slurm("sinfo", "-h", "-N", "-o", "%T").split()) == {"idle"}


def test_stop_names_the_job_and_ends_it_only_by_force(bay: Bay) -> None:
    number = bay.start_long_job()
    said = bay.refused("stop", bay.victim).stderr
    assert f"job {number} of root (train) on {bay.victim}" in said
    assert "--drain" in said
    assert "--force" in said
    assert bay.job(number) == "RUNNING"
    assert bay.state(bay.victim) in ("mixed", "allocated")
    said = bay.gpuprov("stop", bay.victim, "--force").stderr
    assert f"ending job {number} of root (train)" in said
    assert f"job {number} is queued again" in said
    assert bay.job(number) == "PENDING", "Slurm knows at once"
    assert bay.state(bay.victim).startswith("down")
    other = bay.submit("true", "-w", bay.victim)
    bay.gpuprov("start", bay.victim)
    bay.wait(lambda: bay.job(other) == "COMPLETED", "a job on the node that was unreachable")


@pytest.mark.parametrize("verb", [pytest.param("restore", marks=pytest.mark.long), "rm"])
def test_the_others_too_and_slurm_knows_at_once(bay: Bay, verb: str) -> None:
    bay.gpuprov("snapshot", bay.victim, "good")
    number = bay.start_long_job("--no-requeue")
    argv = ("restore", bay.victim, "good") if verb == "restore" else ("rm", bay.victim)
    assert f"job {number} of root (train) on {bay.victim}" in bay.refused(*argv).stderr
    assert bay.job(number) == "RUNNING"
    assert f"ending job {number}" in bay.gpuprov(*argv, "--force").stderr
    assert bay.job(number) in ("NODE_FAIL", "CANCELLED", "")


def test_a_job_whose_srun_is_on_the_node_counts(bay: Bay) -> None:
    """It runs elsewhere, and ends when the node of its srun does."""
    other = bay.place.node(1)
    with bay.gpuprov.start("exec", bay.victim, "--", "srun", "-J", "far", "-w", other, "sleep", "600") as srun:
        bay.wait(lambda: "RUNNING" in bay.slurm("squeue", "-h", "-o", "%T"), "the job to run")
        assert f"(far) on {other}" in bay.refused("stop", bay.victim).stderr
        bay.gpuprov("stop", bay.victim, "--force")
        assert "RUNNING" not in bay.slurm("squeue", "-h", "-o", "%T")
        srun.wait(timeout=30)


def test_drain_waits_and_loses_nothing(bay: Bay) -> None:
    number = bay.submit("sleep 10", "-w", bay.victim)
    bay.wait(lambda: bay.job(number) == "RUNNING", "the job to run")
    said = bay.gpuprov("stop", bay.victim, "--drain", "2m").stderr
    assert f"waiting for job {number}" in said
    assert bay.job(number) == "COMPLETED"
    assert bay.rows()[bay.victim]["status"] == "stopped"


@pytest.mark.parametrize("how", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL])
def test_a_drain_that_is_cut_off(bay: Bay, how: signal.Signals) -> None:
    """After Ctrl-C the node takes jobs again at once; after a kill, with the next `cluster up`, which says so."""
    bay.start_long_job()
    with bay.gpuprov.start("stop", bay.victim, "--drain") as process:
        bay.wait(lambda: "drain" in bay.state(bay.victim), "the drain")
        assert bay.rows()[bay.place.node(1)]["slurm"] == "idle"
        process.send_signal(how)
        assert process.wait(timeout=60) == (130 if how == signal.SIGINT else -9)
    if how == signal.SIGKILL:
        assert "drain" in bay.state(bay.victim)
        plan = bay.gpuprov.json("cluster", "plan", "--name", bay.place.cluster)["plan"]
        assert [line for line in plan if line.startswith(f"resume {bay.victim}: ")] == plan
        assert bay.gpuprov.json(*bay.up(3))["changed"] == plan
    assert bay.slurm("sinfo", "-h", "-N", "-n", bay.victim, "-o", "%E").strip() == "none"
    assert bay.state(bay.victim) in ("mixed", "allocated")


@pytest.mark.long  # tests/unit/lifecycle/test_jobs_are_spared.py
def test_an_administrator_s_drain_stays(bay: Bay) -> None:
    bay.slurm("scontrol", "update", f"nodename={bay.victim}", "state=drain", "reason=the fan is loud")
    try:
        done = bay.gpuprov(*bay.up(3))
        assert "unchanged" in done.stdout
        assert "the fan is loud (set by root)" in done.stderr
        bay.gpuprov("stop", bay.victim)
        bay.gpuprov("start", bay.victim)
        assert "drain" in bay.state(bay.victim)
    finally:
        bay.slurm("scontrol", "update", f"nodename={bay.victim}", "state=resume")


@pytest.mark.long  # tests/unit/lifecycle/test_jobs_are_spared.py
def test_who_cannot_look_refuses_and_force_goes_on(bay: Bay) -> None:
    bay.slurm("systemctl", "stop", "slurmctld")
    try:
        said = bay.gpuprov("stop", bay.victim, expect=2).stderr
        assert "cannot tell whether jobs run on" in said
        assert "--force" in said
        assert "jobs on" in bay.gpuprov("stop", bay.victim, "--force").stderr
        assert bay.rows()[bay.victim]["status"] == "stopped"
    finally:
        bay.slurm("systemctl", "start", "slurmctld")
        bay.gpuprov("start", bay.victim)


def test_cluster_down_counts_jobs_that_wait(bay: Bay) -> None:
    number = bay.submit("true", "--begin=now+1hour")
    said = bay.refused("cluster", "down", bay.place.cluster, "--yes").stderr
    assert f"job {number} of root (train) waiting" in said
    assert "--force" in said


def test_no_job_of_a_full_queue_is_lost(bay: Bay, ledger: Ledger) -> None:
    for turn in range(SHORT):
        survive_round(bay, ledger, f"short-{turn}", patient=turn % 2 == 0)


@pytest.mark.long
def test_no_job_is_lost_in_many_rounds(bay: Bay, ledger: Ledger) -> None:
    for turn in range(LONG):
        survive_round(bay, ledger, f"long-{turn}", patient=turn % 2 == 0)


def survive_round(bay: Bay, ledger: Ledger, mark: str, *, patient: bool) -> None:
    """Each verb, and back, begun beside a full queue: with --drain, or again and again until it may."""
    jobs = 0
    verbs = {
        "rm": (("rm", bay.victim), bay.up(3)),
        "stop, start": (("stop", bay.victim), ("start", bay.victim)),
        "cluster up, smaller": (bay.up(2), bay.up(3)),
        "cluster up, larger": (bay.up(4), bay.up(3)),
    }
    for steps in verbs.values():
        jobs += fill(bay, mark)
        for argv in steps:
            insist(bay, argv, patient=patient)
    bay.wait(lambda: not bay.slurm("squeue", "-h"), f"the {jobs} jobs to end", seconds=PATIENCE_S)
    ends = bay.slurm("squeue", "-h", "-r", "-t", "all", "-n", mark, "-o", "%T").split()
    lost = jobs - ends.count("COMPLETED")
    ledger.add("job", engine="lxd", verb="; ".join(verbs), rounds=len(verbs), jobs=jobs, lost=lost)
    assert lost == 0, ends


def fill(bay: Bay, mark: str) -> int:
    """Have more jobs wait than the nodes run at once; returns how many were added."""
    added = 0
    while bay.slurm("squeue", "-h", "-r", "-t", "PENDING", "-n", mark, "-o", "%T").count("PENDING") < FULL:
        bay.submit(f"sleep {SECOND}", f"--array=1-{FULL}", name=mark)
        added += FULL
    return added


def insist(bay: Bay, argv: tuple[str, ...], *, patient: bool) -> None:
    """Run a verb until it is done: waiting, or again after each refusal."""
    if patient and argv[0] != "start":
        bay.gpuprov(*argv, "--drain", "10m")
        return
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        with bay.gpuprov.start(*argv) as process:
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
        if process.returncode == 0:
            return
        assert process.returncode == 2, stdout + stderr
        assert "there are jobs on" in stderr
        assert time.monotonic() < deadline_s
