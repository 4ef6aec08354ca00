"""GPU hours: what is read from sacct, which a hostile node may have written, and sums of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, cast

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import ExecResult
from gpuprov.roles.slurm.job_rows import read_gpus
from gpuprov.roles.slurm.usage import ask_uses, parse_uses
from gpuprov.roles.usage import Use, Uses, overlap_s, sum_uses
from gpuprov.shapes.jobs import Job, Jobs
from gpuprov.shapes.submitter import Submitter
from gpuprov.stories.usage import uses_of_jobs, with_submitted

ROW = "7|7|work|work|COMPLETED|1795862000|1795862070|60|billing=1,cpu=1,gres/gpu=2,mem=1000M,node=1|c000"
USE = Use(job="7", person="work", account="work", nodes=("c000",), gpus={"gpu": 2}, seconds=60, submitted=1795862000)
UUID = "GPU-82fdd779-0000-0000-0000-00000000000{}"


def said(*rows: str, live: tuple[str, ...] = (), queue: int = 0) -> str:
    known = [f"live {one}" if " " in one else f"live {one} 1795862000 RUNNING 1795862010 NONE" for one in live]
    return "".join(f"{line}\n" for line in (f"queue {queue}", *known, "jobs", *rows))


def test_a_row_is_read() -> None:
    assert parse_uses(said(ROW)).uses == (USE,)
    assert parse_uses("jobs\n").uses == ()


@pytest.mark.parametrize(
    ("row", "use"),
    [
        (
            "9|8_1|ann|vision|CANCELLED by 10001|1795862000|1795862070|5|cpu=1,gres/gpu=1|c001",
            {"job": "8_1", "person": "ann"},
        ),
        (
            "9|8_1|ann|vision|NODE_FAIL|1795862000|1795862070|5|gres/gpu=1|c[000-001,003]",
            {"nodes": ("c000", "c001", "c003")},
        ),
        (
            "9|9|||FAILED|1795862000|1795862070|5|gres/gpu:h100=2,gres/gpu=3|c000",
            {"gpus": {"h100": 2, "gpu": 1}, "person": ""},
        ),
        ("9|9+1|ann|v|OUT_OF_MEMORY|1795862000|1795862070|0|gres/gpu=1|c000", {"job": "9+1", "seconds": 0}),
    ],
)
def test_rows_of_many_kinds_are_read(row: str, use: dict[str, object]) -> None:
    (found,) = parse_uses(said(row)).uses
    assert {key: getattr(found, key) for key in use} == use


@pytest.mark.parametrize(
    "row",
    [
        "7|7|work|work|COMPLETED|1795862000|1795862070|60|billing=1,cpu=1,node=1|c000",
        "7|7_[1-3%2]|work|work|PENDING|1795862000|1795862070|0||None assigned",
        "7|7|work|work|CANCELLED by 0|1795862000|1795862070|0||None assigned",
    ],
)
def test_what_had_no_gpu_counts_nothing(row: str) -> None:
    assert parse_uses(said(row)).uses == ()


@pytest.mark.parametrize(
    "row",
    [
        "",
        "x",
        ROW + "|more",
        ROW.replace("7|7", "7|x"),
        ROW.replace("|60|", "|-60|"),
        ROW.replace("1795862070", "soon"),
        ROW.replace("|1795862000|", "|999999999999|"),
        ROW.replace("|60|", "|60.5|"),
        ROW.replace("work", "wo rk"),
        ROW.replace("work", "\x1b[31m"),
        ROW.replace("work", "w" * 65),
        ROW.replace("c000", "c[000-99999999]"),
        ROW.replace("c000", "c000;reboot"),
        ROW.replace("7|7", "\N{ARABIC-INDIC DIGIT SEVEN}|7"),
    ],
)
def test_anything_else_is_no_answer(row: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_uses(said(ROW, row))


def test_jobs_of_verify_are_those_of_root_that_sacct_names() -> None:
    rows = (ROW, ROW.replace("7|7", "8|8"), ROW.replace("|1795862000|", "|1795862001|"))
    found = parse_uses(f"verify 7|1795862000\n{said(*rows)}")
    assert [use.person for use in found.uses] == ["(verify)", "work", "work"]


@pytest.mark.parametrize(
    "head",
    [
        "verify 7",
        "verify 7|8|9",
        "live x",
        "queue",
        "live 1 2",
        "live 1 2 RUNNING 3",
        "live 1 2 RUNNING x NONE",
        "hello",
    ],
)
def test_so_is_anything_else_before_the_rows(head: str) -> None:
    with pytest.raises(ValueError, match=head):
        parse_uses(f"{head}\njobs\n{ROW}\n")


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "COMPLETING"])
def test_a_job_that_goes_on_counts_up_to_now_if_slurm_knows_it(state: str) -> None:
    row = ROW.replace("COMPLETED", state)
    (use,) = parse_uses(said(row, live=("7",))).uses
    assert use == replace(USE, running=True)
    found = parse_uses(said(row, live=("8",)), "c000")
    assert found.uses == ()
    (note,) = found.notes
    assert note.startswith("1 jobs have no end on record and are left out, such as 7")
    assert "gpuprov exec c000 -- sacctmgr show runawayjobs" in note


def test_the_same_number_of_an_earlier_cluster_does_not_go_on() -> None:
    found = parse_uses(said(ROW.replace("COMPLETED", "RUNNING"), live=("7 1795869999 RUNNING 1795869999 NONE",)))
    assert (found.uses, found.late) == ((), 0)
    assert found.notes[0].startswith("1 jobs have no end on record")


WINDOW_S = (1795860000, 1795863000)


@pytest.mark.parametrize(
    ("rows", "late", "seconds"),
    [
        ((ROW,), 0, [60]),
        ((), 1, []),
        ((ROW.replace("COMPLETED", "RUNNING"),), 1, []),  # what it ended is not there yet
        ((ROW.replace("1795862070|60", "1795863000|990"),), 1, []),  # COMPLETED without an end: it counts up to now
        ((ROW.replace("1795862000|", "1795861000|").replace("1795862070", "1795861060"),), 1, [60]),  # another one's
        ((ROW.replace("7|7", "8|8"),), 1, [60]),
    ],
)
def test_what_slurmctld_knows_to_have_ended_is_on_record_or_told(
    rows: tuple[str, ...], late: int, seconds: list[int]
) -> None:
    live = ("7 1795862000 COMPLETED 1795862010 1795862070",)
    found = parse_uses(said(*rows, live=live), window=WINDOW_S)
    assert found.late == late
    assert [use.seconds for use in found.uses] == seconds
    assert [note.startswith("1 jobs have ended and are not on record yet, such as 7") for note in found.notes] == [
        True
    ] * late


@pytest.mark.parametrize(
    "live",
    [
        "7 1795862000 COMPLETED 1795863000 1795863500",  # later than the window
        "7 1795850000 COMPLETED 1795850000 1795860000",  # earlier
        "7 1795862000 CANCELLED 1795862010 1795862010",  # never ran
        "7 1795862000 PENDING 1795862100 NONE",
        "7 1795862000 PENDING N/A N/A",
        "7 1795862000 RUNNING 1795862100 1827398100",  # with a limit of time
    ],
)
def test_nothing_is_waited_for_that_did_not_end_in_the_window(live: str) -> None:
    assert parse_uses(said(live=(live,)), window=WINDOW_S).late == 0


def test_a_job_that_ended_after_the_window_counts_up_to_its_end() -> None:
    row = ROW.replace("1795862070|60", "1795863000|990")
    found = parse_uses(said(row, live=("7 1795862000 COMPLETED 1795862010 1795863400",)), window=WINDOW_S)
    assert (found.late, [use.seconds for use in found.uses]) == (0, [990])


def test_jobs_without_a_node_on_record_count() -> None:
    (use,) = parse_uses(said(ROW.replace("c000", "None assigned"))).uses
    assert use == replace(USE, nodes=())
    assert sum_uses([use], "node", "lab")[0].name == "?"


def test_a_clock_that_was_put_back_is_told() -> None:
    found = parse_uses(said(ROW.replace("1795862070|60", "1795861000|0")), "c000")
    assert [use.seconds for use in found.uses] == [0]
    assert found.notes[0].startswith("the clock of c000 was put back while 1 jobs waited or ran, such as 7")


class ManualClock:
    """Time that goes by only where somebody waits."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def now_s(self) -> float:
        return self.at_s

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds


class Told:
    """A node of which the accounting knows more each time that it is asked."""

    def __init__(self, *texts: str, exit_code: int = 0, stderr: str = "") -> None:
        self.texts, self.exit_code, self.stderr = list(texts), exit_code, stderr

    def run(self, _node: str, _argv: list[str], **_: Any) -> ExecResult:
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return ExecResult(exit_code=self.exit_code, stdout=text, stderr=self.stderr)

    def ask(self, clock: ManualClock) -> Uses:
        since, until = (datetime.fromtimestamp(second, timezone.utc) for second in WINDOW_S)
        return ask_uses(cast("Any", self), "c000", since=since, until=until, clock=clock)


ENDED = "7 1795862000 COMPLETED 1795862010 1795862070"


def test_ends_that_are_not_on_record_yet_are_waited_for() -> None:
    clock = ManualClock()
    found = Told(said(live=(ENDED,)), said(ROW.replace("COMPLETED", "RUNNING"), live=(ENDED,)), said(ROW)).ask(clock)
    assert (found.uses, found.notes, clock.now_s() > 0) == ((USE,), (), True)


def test_no_longer_than_slurmctld_takes_to_reach_slurmdbd() -> None:
    clock = ManualClock()
    found = Told(said(live=(ENDED,), queue=5)).ask(clock)
    assert (found.uses, found.late, clock.now_s()) == ((), 1, 30)
    assert [note.split()[0] for note in found.notes] == ["5", "1"]


def test_where_slurmdbd_is_away_what_waits_for_it_is_told() -> None:
    away = Told("queue 12\njobs\n", exit_code=1, stderr="sacct: error: Connection refused")
    with pytest.raises(EngineError, match="does not answer") as caught:
        away.ask(ManualClock())
    assert caught.value.evidence.endswith(
        "Connection refused; jobs go on, and 12 messages of slurmctld wait for slurmdbd"
    )
    away = Told("queue 0\njobs\n", exit_code=1, stderr="sacct: error: Connection refused")
    with pytest.raises(EngineError, match="does not answer") as caught:
        away.ask(ManualClock())
    assert caught.value.evidence.endswith("; jobs go on, and are on record once it is back")


@pytest.mark.parametrize(
    ("why", "fix"),
    [
        ("full its disk has less than 16 MiB left", "make room on the disk"),
        ("newer its files are of MariaDB 11.4.2, and 10.11.19 is here", "nothing was changed; in the spec, an"),
        ("unmounted /var/lib/gpuprov-accounts is not mounted", "gpuprov cluster up"),
        ("elsewhere slurmdbd is on the node with the address 10.0.3.2, and does not answer", "gpuprov cluster status"),
        ("else something", "gpuprov exec c000 -- tail /var/log/slurm/slurmdbd.log"),
    ],
)
def test_where_the_node_knows_why_that_is_told(why: str, fix: str) -> None:
    away = Told(f"queue 12\njobs\nwhy {why}\n", exit_code=1, stderr="sacct: error: Connection refused")
    with pytest.raises(EngineError, match="does not answer") as caught:
        away.ask(ManualClock())
    words = why.partition(" ")[2]
    assert caught.value.evidence == f"{words}; jobs go on, and 12 messages of slurmctld wait for slurmdbd"
    assert caught.value.fix.startswith(fix)


def test_what_waits_for_slurmdbd_is_told() -> None:
    (note,) = parse_uses(said(ROW, queue=12)).notes
    assert note.startswith("12 messages wait for slurmdbd")


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("", {}),
        ("cpu=1", {}),
        ("gres/gpu=0", {}),
        ("gres/gpu=2", {"gpu": 2}),
        ("gres/gpu:h100=2,gres/gpu=2", {"h100": 2}),
        ("gres/gpu=3,gres/gpu:h100=2", {"h100": 2, "gpu": 1}),
        ("gres/gpu:1g.10gb=1,gres/gpu=1", {"1g.10gb": 1}),
        ("gres/gpumem=5,gres/shard=4", {}),
    ],
)
def test_gpus_are_counted_by_type(tres: str, gpus: dict[str, int]) -> None:
    assert read_gpus(tres) == gpus


def test_tries_of_a_job_are_summed_and_it_counts_once() -> None:
    uses = (USE, replace(USE, seconds=30), replace(USE, job="8", person="ann", gpus={"h100": 1}, running=True))
    rows = [(row.name, row.gpu_seconds, row.jobs, row.running) for row in sum_uses(uses, "person", "lab")]
    assert rows == [("work", 180, 1, 0), ("ann", 60, 1, 1)]
    assert [(row.name, row.gpu_seconds) for row in sum_uses(uses, "gpu", "lab")] == [("gpu", 180), ("h100", 60)]
    assert [(row.name, row.gpu_seconds) for row in sum_uses(uses, "job", "lab")] == [("7", 180), ("8", 60)]


def test_a_later_cluster_has_other_jobs_of_the_same_number() -> None:
    uses = (USE, replace(USE, submitted=1795870000, seconds=5), replace(USE, job="8", seconds=1))
    assert [(row.name, row.gpu_seconds, row.jobs) for row in sum_uses(uses, "job", "lab")] == [
        ("7 of 2026-11-28T10:33:20Z", 120, 1),
        ("7 of 2026-11-28T12:46:40Z", 10, 1),
        ("8", 2, 1),
    ]
    (row,) = sum_uses(uses, "person", "lab")
    assert row.jobs == 3


def test_a_job_over_several_nodes_has_a_row_of_theirs() -> None:
    uses = (USE, replace(USE, job="8", nodes=("c000", "c001")), replace(USE, job="9", nodes=(), account=""))
    assert [row.name for row in sum_uses(uses, "node", "lab")] == ["?", "c000", "c[000-001]"]
    assert {row.name for row in sum_uses(uses, "account", "lab")} == {"?", "work"}


@pytest.mark.parametrize(
    ("span", "seconds"), [((0, 10), 0), ((90, 110), 10), ((110, 120), 10), ((0, 500), 100), ((300, 400), 0)]
)
def test_only_the_part_in_the_window_counts(span: tuple[float, float], seconds: int) -> None:
    assert overlap_s(*span, (100, 200)) == seconds


def job(**more: object) -> Job:
    values: dict[str, object] = {
        "id": "7",
        "name": "train.py",
        "state": "done",
        "node": "c000",
        "gpus": (UUID.format(1), UUID.format(2)),
        "submitter": Submitter(name="ann", host="hoff", known_by="login", ssh_from=None),
        "submitted": "2026-11-01T10:00:00Z",
        "started": "2026-11-01T11:59:00Z",
        "ended": "2026-11-01T12:01:00Z",
        "log": "/shared/jobs/7/log",
    }
    return Job(**{**values, **more})  # type: ignore[arg-type]


WINDOW = (datetime(2026, 11, 1, 12, tzinfo=timezone.utc), datetime(2026, 11, 1, 13, tzinfo=timezone.utc))


def test_records_of_submitted_jobs_count_from_the_edge_of_the_window() -> None:
    found = uses_of_jobs(Jobs(jobs=(job(),), older=3), WINDOW, note="a note")
    assert found.notes == ("a note", "3 older submissions are left out")
    (use,) = found.uses
    assert (use.person, use.account, use.nodes, use.seconds, use.running) == ("ann", "?", ("c000",), 60, False)
    assert [(row.name, row.gpu_seconds) for row in sum_uses([use], "gpu", "lab")] == [
        (UUID.format(1), 60),
        (UUID.format(2), 60),
    ]


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        ({"state": "running", "ended": None}, [3600]),
        ({"state": "lost", "ended": None}, []),
        ({"state": "waiting", "started": None, "ended": None}, []),
        ({"gpus": ()}, []),
        ({"ended": "2026-11-01T11:59:59Z"}, []),
        ({"started": "2026-11-01T13:00:00Z", "ended": "2026-11-01T14:00:00Z"}, []),
        ({"submitter": None}, [60]),
    ],
)
def test_jobs_that_go_on_or_had_nothing_then(more: dict[str, object], seconds: list[int]) -> None:
    assert [use.seconds for use in uses_of_jobs(Jobs(jobs=(job(**more),)), WINDOW, note="").uses] == seconds


def test_a_record_has_the_names_of_who_submitted_and_what_is_from_before_it() -> None:
    def use(number: str, person: str, submission: str) -> Use:
        return Use(
            job=number, person=person, account="", nodes=("c000",), gpus={"h100": 1}, seconds=9, submission=submission
        )

    record = Uses(uses=(use("1_0", "work", "7"), use("2_0", "work", "6"), use("3", "dan", "")))
    jobs = Jobs(jobs=(job(), job(id="8.0"), job(id="8.1", state="waiting", started=None, ended=None)), older=3)
    found = with_submitted(record, jobs, WINDOW)
    assert [(one.job, one.person, one.seconds) for one in found.uses] == [
        ("1_0", "ann", 9),
        ("2_0", "work", 9),
        ("3", "dan", 9),
        ("8.0", "ann", 60),
    ]
    assert found.notes == ("3 older submissions are left out",)
