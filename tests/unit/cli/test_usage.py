"""`gpuprov usage`: GPU hours, by accounting and without it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.cli.tables import Screen
from gpuprov.cli.usage import render_usage
from gpuprov.shapes.usage import Usage, UsageRow
from tests.fakes.accounting import accounting_spec
from tests.fakes.jobs_in_nodes import give_jobs
from tests.schemas import validate

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.forked_programs import ForkedPrograms
    from tests.fakes.world import World
    from tests.unit.cli.conftest import Typed

pytestmark = pytest.mark.slow

IMAGE = ("--engine", "lxd", "--image", "gpuprov-image-plain")
SAID = """\
queue 3
live 9 1795862000 RUNNING 1795862010 NONE
jobs
7|7|work|work|COMPLETED|1795862000|1795869000|3600|cpu=1,gres/gpu=2|c000
8|8|ann|vision|COMPLETED|1795862000|1795869000|1800|cpu=1,gres/gpu=1|c[000-001]
9|9|ann|vision|RUNNING|1795862000|1795869000|36|cpu=1,gres/gpu=1|c001
10|10|ann|vision|RUNNING|1795862000|1795869000|36|cpu=1,gres/gpu=1|c001"""


@pytest.fixture
def counting(typed: Typed) -> World:
    world = typed.world
    world.empty()
    world.up(spec=accounting_spec(world))
    world.slurm.said["sacct --allusers"] = SAID
    return world


@pytest.fixture
def submitting(
    typed: Typed,
    programs: ForkedPrograms,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Typed:
    """Without accounting, and with nodes that run jobs."""
    typed(("cluster", "up", "-n", "2", "--share", "--gpu-mode", "simulated", "--no-verify"), capsys)
    give_jobs(typed.world, tmp_path, monkeypatch, programs)
    return typed


def usage(world: World, capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main(["usage", *argv], host=world.host) == code
    said = capsys.readouterr()
    return said.out, said.err


def test_hours_are_shown_with_what_is_missing_and_marked(counting: World, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = usage(counting, capsys, "--since", "2026-11-01")
    lines = out.splitlines()
    assert [line.split() for line in lines[1:3]] == [["work", "2.00", "1", "-"], ["ann", "0.51", "2", "1"]]
    assert lines[-1].startswith("2.51 GPU hours SIMULATED from 2026-11-01T00:00:00Z to ")
    assert "3 messages wait for slurmdbd" in err
    assert "1 jobs have no end on record and are left out, such as 10" in err
    assert "gpuprov exec c000 -- sacctmgr show runawayjobs" in err
    assert "SIMULATED" in err


def test_the_document_and_csv_have_seconds(counting: World, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(usage(counting, capsys, "--json", "--by", "node")[0])
    validate(told)
    assert [(row["name"], row["gpu_seconds"]) for row in told["rows"]] == [
        ("c000", 7200),
        ("c[000-001]", 1800),
        ("c001", 36),
    ]
    assert (told["gpu_seconds"], told["accounting"], told["simulated"], len(told["notes"])) == (9036, True, True, 2)
    out, _ = usage(counting, capsys, "--csv", "--by", "account")
    assert out.splitlines() == [
        "account,gpu_seconds,gpu_hours,jobs,running,cluster",
        "work,7200,2.00,1,0,lab",
        "vision,1836,0.51,2,1,lab",
    ]


def test_a_row_of_a_job_has_its_person(counting: World, capsys: pytest.CaptureFixture[str]) -> None:
    counting.slurm.said["sacct --allusers"] = f"verify 8|1795862000\n{SAID}"
    told = json.loads(usage(counting, capsys, "--json", "--by", "job")[0])
    validate(told)
    assert [(row["name"], row["person"]) for row in told["rows"]] == [("7", "work"), ("8", "(verify)"), ("9", "ann")]
    assert usage(counting, capsys, "--by", "job")[0].splitlines()[1].split() == ["7", "work", "2.00", "1", "-"]
    assert usage(counting, capsys, "--by", "job", "--csv")[0].splitlines()[1] == "7,7200,2.00,1,0,lab,work"
    assert {row["person"] for row in json.loads(usage(counting, capsys, "--json")[0])["rows"]} == {None}


def test_containers_of_run_have_rows_beside_those_of_the_cluster(
    counting: World, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(("run", "--name", "train", "--detach", *IMAGE, "--gpus", "1", "--", "true"), capsys)
    told = json.loads(usage(counting, capsys, "--json", "--by", "job")[0])
    validate(told)
    (row,) = (row for row in told["rows"] if row["cluster"] == "(jobs)")
    assert (row["name"], row["jobs"], row["running"]) == ("train", 1, 1)
    assert len(told["rows"]) == 4
    assert usage(counting, capsys)[0].splitlines()[0].split() == [
        "PERSON",
        "CLUSTER",
        "GPU",
        "HOURS",
        "JOBS",
        "RUNNING",
    ]
    of_the_cluster = json.loads(usage(counting, capsys, "--json", "--cluster", "lab")[0])
    assert {row["cluster"] for row in of_the_cluster["rows"]} == {"lab"}
    typed(("run", "rm", "--force", "train"), capsys)
    assert "train,0,0.00,1,0,(jobs)," in usage(counting, capsys, "--csv", "--by", "job")[0]


def test_without_a_cluster_containers_of_run_alone_are_counted(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    typed.world.empty()
    assert usage(typed.world, capsys, code=2)[1].startswith("error: ")
    typed(("run", *IMAGE, "--gpus", "1", "--", "true"), capsys, codes=(0, 127))
    out, err = usage(typed.world, capsys, "--by", "node")
    cells = out.splitlines()[1].split()
    assert (*cells[:2], *cells[3:]) == ("here", "(jobs)", "1", "-")
    assert cells[2] in {"0.00", "<0.01"}, "it may have taken a second"
    assert "only `gpuprov run` is counted: " in err
    assert usage(typed.world, capsys, "--cluster", "lab", code=2)[1].startswith("error: ")


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0.00"), (1, "<0.01"), (17, "<0.01"), (18, "0.01"), (360, "0.10")])
def test_seconds_do_not_look_like_nothing(
    counting: World, capsys: pytest.CaptureFixture[str], seconds: int, shown: str
) -> None:
    job = f"7|7|ann|vision|COMPLETED|1795862000|1795869000|{seconds}|gres/gpu=1|c000"
    counting.slurm.said["sacct --allusers"] = f"jobs\n{job}"
    lines = usage(counting, capsys)[0].splitlines()
    assert lines[1].split() == ["ann", shown, "1", "-"]
    assert lines[-1].startswith(f"{shown} GPU hours ")


def test_a_formula_is_text_in_csv(counting: World, capsys: pytest.CaptureFixture[str]) -> None:
    counting.slurm.said["sacct --allusers"] = "jobs\n7|7|-a|@b|COMPLETED|1795862000|1795869000|60|gres/gpu=1|c000"
    assert usage(counting, capsys, "--csv")[0].splitlines()[1] == "'-a,60,0.02,1,0,lab"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--since", "yesterday"), "--since is no date: 'yesterday'"),
        (("--since", "2026-11-31"), "--since is no date"),
        (("--until", "2026-11-1"), "--until is no date"),
        (("--since", "2026"), "--since is no date"),
        (("--since", "1969-12-31"), "--since is no date"),
        (("--until", "0001-01-01"), "--until is no date"),
        (("--since", "7 days"), "--since is no date"),
        (("--since", "-7d"), "--since is no date"),
        (("--since", "99999d"), "--since is no date"),
        (("--since", "0h"), "no time is between --since and --until"),
        (("--since", "7d", "--until", "14d"), "no time is between --since and --until"),
        (("--since", "2999-01-01"), "no time is between --since and --until"),
        (("--since", "2026-11-02", "--until", "2026-11-01"), "no time is between --since and --until"),
        (("--by", "user"), "'user' is not one of"),
    ],
)
def test_what_is_no_window_is_refused(
    counting: World, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], words: str
) -> None:
    assert words in usage(counting, capsys, *argv, code=2)[1]


def test_a_fix_names_the_cluster(counting: World, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = usage(counting, capsys, "--cluster", "other", "--since", "yesterday", code=2)
    assert "gpuprov usage --cluster other --since 7d" in err


@pytest.mark.parametrize(
    ("argv", "seconds"),
    [
        (("--since", "90s"), 90),
        (("--since", "30m"), 1800),
        (("--since", "12h"), 12 * 3600),
        (("--since", "14d", "--until", "7d"), 7 * 86400),
        (("--until", "9999d"), 30 * 86400),
        ((), 30 * 86400),
    ],
)
def test_a_window_may_be_so_long_ago(
    counting: World, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], seconds: int
) -> None:
    told = json.loads(usage(counting, capsys, "--json", *argv)[0])
    validate(told)
    since, until = (datetime.fromisoformat(told[key].rstrip("Z")) for key in ("since", "until"))
    assert (until - since).total_seconds() == seconds


def test_a_node_that_says_anything_else_is_not_believed(counting: World, capsys: pytest.CaptureFixture[str]) -> None:
    counting.slurm.said["sacct --allusers"] = SAID + "\n\x1b[31mhello"
    _, err = usage(counting, capsys, code=4)
    assert "Slurm's accounting gave an unexpected answer" in err
    assert "\x1b[31mhello" not in err
    assert "gpuprov exec c000 -- sacct --allusers" in err


def test_kept_figures_of_a_removed_cluster_are_named(
    counting: World, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(("cluster", "down", "--yes"), capsys)
    assert main(["usage"], host=counting.host) == 2
    told = capsys.readouterr().err
    assert "error: the cluster lab has no nodes; its figures are kept, but only its nodes can read them" in told
    assert "/lab.accounting has the figures of Slurm's accounting" in told
    assert "fix: create it again, with `accounting: on` in FILE: gpuprov cluster up -f FILE" in told
    typed(("cluster", "down", "--yes", "--purge"), capsys)
    assert main(["usage"], host=counting.host) == 2
    assert "kept" not in capsys.readouterr().err


def test_no_jobs_are_said_in_a_line(counting: World, capsys: pytest.CaptureFixture[str]) -> None:
    counting.slurm.said["sacct --allusers"] = "jobs"
    out, err = usage(counting, capsys, "--since", "2026-11-01")
    assert out.startswith("no job had a GPU from 2026-11-01T00:00:00Z")
    assert "these are hours of no real GPU" not in err, "there are none"
    assert usage(counting, capsys, "--csv")[0] == "person,gpu_seconds,gpu_hours,jobs,running,cluster\n"


def test_without_accounting_jobs_that_were_submitted_are_counted(
    submitting: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submitting(("usage",), capsys).startswith("no counted job had a GPU from "), "one of srun may have had"
    submitting(("submit", "--no-project", "--wait", "--", "true"), capsys)
    told = json.loads(submitting(("usage", "--json"), capsys))
    validate(told)
    assert told["accounting"] is False
    assert "only jobs of `gpuprov submit`" in told["notes"][0]


def test_without_accounting_slurm_s_record_counts_all_and_those_of_submit_once(
    submitting: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    submitting(("submit", "--no-project", "--wait", "--", "true"), capsys)
    (job,) = json.loads(submitting(("jobs", "--json"), capsys))["jobs"]
    owner = job["submitter"]["name"]
    record = (
        "record\n8|8|ann||RUNNING|1795862000|1795869000|36|gres/gpu:h100=1|c001|\n"
        "7|7_0|work||COMPLETED|1795862000|1795869000|3600|gres/gpu:h100=2|c000|1\n"
        "9|9|work||COMPLETED|1795862000|1795869000|60|gres/gpu:h100=1|c000|"
    )
    submitting.world.slurm.said["job-ended"] = record
    told = json.loads(submitting(("usage", "--json", "--since", "2026-11-01"), capsys))
    validate(told)
    assert {row["name"]: (row["gpu_seconds"], row["running"]) for row in told["rows"]} == {
        owner: (7200, 0),
        "work": (60, 0),
        "ann": (36, 1),
    }
    assert (told["accounting"], told["notes"]) == (False, [])
    submitting.world.slurm.said["job-ended"] = "\x1b[31mhello"
    _, err = usage(submitting.world, capsys, code=4)
    assert "Slurm's record of jobs cannot be read" in err
    assert "\x1b[31mhello" not in err


def test_the_table_fits_80_columns() -> None:
    rows = tuple(
        UsageRow(name=f"person{number}" + "x" * 50, cluster="lab", gpu_seconds=10**9, jobs=10**5) for number in range(3)
    )
    told = Usage(
        host="hoff",
        cluster="lab",
        since="2026-11-01T00:00:00Z",
        until="2026-11-28T00:00:00Z",
        by="person",
        rows=rows,
        gpu_seconds=3 * 10**9,
        simulated=True,
        accounting=True,
    )
    assert max(map(len, render_usage(told, screen=Screen(columns=80)).splitlines())) <= 80
