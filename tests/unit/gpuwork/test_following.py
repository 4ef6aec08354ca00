"""Jobs that follow others: on Slurm, on workers, and when the earlier one does not end as it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuwork.jobs.following import judge
from gpuwork.jobs.slurm import sbatch_argv
from gpuwork.jobs.store import read_submission
from tests.unit.gpuwork.test_job_program import LONG, begun

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.slurm_commands import SlurmCommands
    from tests.fakes.worker_bed import WorkerBed
    from tests.unit.gpuwork.conftest import Jobs

pytestmark = pytest.mark.slow  # real runs


def test_slurm_has_the_arrays_that_have_to_succeed(tmp_path: Path, jobs: Jobs, slurm: SlurmCommands) -> None:
    slurm.hold()
    first = jobs.submitted("true", count=2)
    order = read_submission(jobs.submitted("true", after=["1"])).order
    assert slurm.typed("sbatch")[1].count("--kill-on-invalid-dep=yes") == 1
    argv = sbatch_argv(order, tmp_path, (0, 1), after=17, earlier=(5, 6))
    assert "--dependency=afterok:5:6,afterany:17" in argv
    assert jobs.rows("2")[0]["reason"] == "waits for 1"
    assert judge(first.parent, order) == ("waits", "waits for 1")


def test_it_begins_when_all_runs_are_done(jobs: Jobs) -> None:
    jobs.submit("sh", "-c", "sleep 0.5; echo {n} >>../../../both", count=2)
    jobs.submit("sh", "-c", "cat ../../../../1/both", after=["1"])
    assert [row["state"] for row in jobs.wait("2")] == ["done"]
    assert sorted(jobs("logs", "2")["text"].split()) == ["0", "1"]
    jobs.submit("true", after=["1", "2"])
    assert [row["state"] for row in jobs.wait("3")] == ["done"], "what is done already is not waited for"


def test_it_never_begins_when_one_run_fails_and_neither_do_its_followers(jobs: Jobs) -> None:
    jobs.submit("sh", "-c", "sleep 0.5; exit {n}", count=2)
    jobs.submit("touch", "begun", after=["1"])
    jobs.submit("touch", "begun", after=["2"])
    (third,) = jobs.wait("3", code=1)
    (second,) = jobs.wait("2", code=1)
    assert (second["state"], second["reason"]) == ("cancelled", "follows 1.1, which failed")
    assert (third["state"], third["exit_status"]) == ("cancelled", None)
    assert not list(jobs.folder.glob("[23]/runs/*/work/begun"))
    refused = jobs.submit("true", after=["1"], code=2)["error"]
    assert (refused["what"], refused["evidence"]) == (
        "the job would never begin; nothing was submitted",
        "it follows 1.1, which failed",
    )


def test_one_that_is_cancelled_cancels_what_follows_and_is_kept_while_that_waits(
    jobs: Jobs, slurm: SlurmCommands
) -> None:
    jobs.submit("true")
    jobs.wait("1")
    slurm.hold()
    jobs.submit("true", after=["1"])
    refused = jobs("rm", "1", code=2)["error"]
    assert refused["evidence"] == "2 was submitted with --after 1"
    jobs.submit("true", after=["2"])
    jobs("cancel", "2")
    assert [(row["state"], row["reason"]) for row in jobs.rows("3")] == [
        ("cancelled", "follows 2, which was cancelled")
    ]
    assert [job["id"] for job in jobs("rm", "1")["jobs"]] == ["1"]


@pytest.mark.parametrize("after", [["7.3"], [], ["x"], "1"])
def test_an_order_that_follows_nonsense_is_refused(jobs: Jobs, after: object) -> None:
    assert "after" in jobs.submit("true", after=after, code=2)["error"]["evidence"]
    assert "it follows 7" in jobs.submit("true", after=["7"], code=2)["error"]["evidence"]


def test_on_workers_the_end_of_the_earlier_one_hands_it_in(bed: WorkerBed, queued: Jobs) -> None:
    queued.submit("sh", "-c", LONG)
    queued.submit("sh", "-c", "echo after", count=3, at_most=1, after=["1"])
    bed.start()
    begun(queued, "1")
    assert {(row["state"], row["reason"]) for row in queued.rows("2")} == {("waiting", "waits for 1")}
    queued("cancel", "1")
    assert {(row["state"], row["reason"]) for row in queued.wait("2", code=1)} == {
        ("cancelled", "follows 1, which was cancelled")
    }
    queued.submit("sleep", "0.5")
    queued.submit("echo", "{n}", count=3, at_most=1, after=["3"])
    assert [row["state"] for row in queued.wait("4")] == ["done"] * 3
