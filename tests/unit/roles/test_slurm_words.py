"""What Slurm's commands print, also what somebody wrote in order to be read wrongly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuprov.core.process import describe_owner
from gpuprov.roles.departure import Job
from gpuprov.roles.slurm.jobs import ends_with
from gpuprov.roles.slurm.words import (
    DRAINED,
    NodeWord,
    QueuedJob,
    away_reason,
    drain_reason,
    parse_jobs,
    parse_steps,
    parse_words,
)
from gpuprov.shapes.job_order import JobOrder
from gpuwork.jobs.slurm import sbatch_argv

GONE = f"{DRAINED}{describe_owner(os.getpid()).rpartition(' ')[0]} 1"
ELSEWHERE = f"{DRAINED}another-host boot pid:[1] 7 1"


def line(
    number: str = "17",
    state: str = "R",
    *,
    batch: str = "1",
    nodes: str = "c001",
    command: str = "(null)",
    name: str = "train",
) -> str:
    return f"{number:32}{state:4}{batch:2}{'c000':64}{'alice':32}{nodes:160}{command[:40]:40}{name[:40]:40}"


def test_nodes_with_their_reasons() -> None:
    words = parse_words(
        "c000 idle 22.05.8 Unknown none\nc001 drained* 22.05.8 root the fan is loud\nc002 down N/A slurm\nmore lines\n"
    )
    assert words["c000"] == NodeWord(state="idle", user="Unknown", reason="none")
    assert words["c001"].reason == "the fan is loud"
    assert words["c002"].reason == ""
    assert "more" not in words
    assert [word.registered for word in words.values()] == [True, True, False]


def test_of_words_without_end_little_is_kept() -> None:
    assert len(parse_words("\n".join(f"n{number} idle 22.05.8 root none" for number in range(5000)))) == 1024
    assert parse_words(f"c000 {'x' * 33} 1 root none\nc001 idle 1 {'u' * 65} none\n{'n' * 64} idle 1 root none") == {}
    assert parse_words(f"c000 idle {'9' * 33} root none") == {}
    assert len(parse_words(f"c000 drained* 1 root {'r' * 5000}")["c000"].reason) == 300
    assert parse_steps(f"slurmstepd: [{'7' * 11}.0]", "c001") == ()


@pytest.mark.parametrize(
    ("state", "user", "reason", "abandoned", "kept"),
    [
        ("idle", "Unknown", "none", False, False),
        ("draining*", "root", GONE, True, False),
        ("drained", "root", ELSEWHERE, False, True),
        ("down*", "root", GONE, False, False),
        ("drained", "carol", "the fan is loud", False, True),
        ("drained", "slurm", "gres/gpu count reported lower than configured (0 < 1)", False, False),
        ("drained", "root", "gpuprov", False, True),
    ],
    ids=["idle", "killed", "elsewhere", "down", "administrator", "slurm", "other words"],
)
def test_who_drained_a_node(state: str, user: str, reason: str, abandoned: bool, kept: bool) -> None:
    word = NodeWord(state=state, user=user, reason=reason)
    assert (word.own, word.abandoned, word.kept) == (False, abandoned, kept)


def test_a_node_that_this_process_drained_is_its_own() -> None:
    word = NodeWord(state="drained", user="root", reason=drain_reason())
    assert (word.own, word.abandoned, word.kept) == (True, False, False)


OURS = away_reason("hinton", "2026-11-23T18:00:00Z")


@pytest.mark.parametrize(
    ("state", "user", "reason", "away", "workless"),
    [
        ("idle*", "Unknown", "none", False, True),
        ("down*", "slurm", "Not responding", False, True),
        ("down*", "root", OURS, True, True),
        ("down", "root", OURS, True, True),
        ("idle", "Unknown", "none", False, True),
        ("allocated*", "Unknown", "none", False, False),
        ("mixed*", "Unknown", "none", False, False),
        ("drained*", "carol", "the fan is loud", False, False),
        ("down*", "carol", "the fan is loud", False, False),
        ("down*", "root", drain_reason(), False, False),
        ("idle", "root", OURS, False, False),
    ],
    ids=["unheard", "by Slurm", "ours", "ours, heard", "well", "with a job", "with jobs", "drained", "by a person",
         "stops", "in service"],
)  # fmt: skip
def test_which_nodes_are_down_because_of_their_host(
    state: str, user: str, reason: str, away: bool, workless: bool
) -> None:
    word = NodeWord(state=state, user=user, reason=reason)
    assert (word.away, word.workless) == (away, workless)


def test_jobs_whatever_they_are_called() -> None:
    text = "\n".join(
        (
            line(name="one two|three"),
            line("18_4", "CG", batch="0", name="forged\n99                  R   0"),
            line("19_[1-50]", "PD", nodes=""),
            line("", "R"),
        )
    )
    entries = parse_jobs(text)
    assert [entry.job.id for entry in entries] == ["17", "18_4", "19_[1-50]"]
    assert [entry.client for entry in entries] == ["", "c000", ""]
    assert [entry.job.ending for entry in entries] == [False, True, False]
    assert entries[0].job.name == "one two|three"
    assert str(entries[2].job) == "19_[1-50] of alice (train) waiting"


HANDED_IN = sbatch_argv(JobOrder(command=("true",)), Path("/shared/jobs/12"), (9000, 1), after=None)[-2:]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/shared/jobs/12/run.sh 0", "17_0 of alice (train, job 12 of gpuprov) on c001"),
        (" ".join(HANDED_IN), "17_0 of alice (train, job 12 of gpuprov) on c001"),
        ("/shared/jobs/12/run.sh", "17_0 of alice (train) on c001"),
        ("/shared/jobs/../12/run.sh 0", "17_0 of alice (train) on c001"),
        ("/home/alice/jobs/12/run.sh 0", "17_0 of alice (train) on c001"),
        ("(null)", "17_0 of alice (train) on c001"),
    ],
)
def test_a_job_of_submit_has_its_own_number_too(command: str, shown: str) -> None:
    (entry,) = parse_jobs(line("17_0", command=command))
    assert str(entry.job) == shown


def test_a_name_with_line_breaks_hides_no_job() -> None:
    forged = "x\n" + " " * 300
    entries = parse_jobs(line(name=forged) + "\n" + line("18"))
    assert [entry.job.id for entry in entries] == ["17", "18"]


@pytest.mark.parametrize(
    ("place", "client", "ends"),
    [
        ("c001", "", True),
        ("c[000-001]", "", True),
        ("c[000,002-003]", "", False),
        ("c002", "c001", True),
        ("c002", "c000", False),
        ("c[001-", "", True),
        ("c000," * 40, "", True),
    ],
)
def test_which_jobs_end_with_a_node(place: str, client: str, *, ends: bool) -> None:
    assert ends_with(QueuedJob(job=Job(id="17", place=place), client=client), ["c001"]) is ends


def test_steps_of_a_node_without_a_controller() -> None:
    text = (
        "slurmstepd: [17.batch] \nslurmstepd: [17.0] \nslurmstepd: [18.extern]\nslurmstepd infinity\nslurmstepd: [x]\n"
    )
    assert parse_steps(text, "c001") == (Job(id="17", place="c001"), Job(id="18", place="c001"))
