"""`--as`: jobs of people, by those who may use the engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec import UNSET, UnsetType

from gpuprov.cli.main import main
from gpuprov.drivers.base import LABEL_SPEC, ExecResult
from gpuprov.shapes.base import changed, encode, read
from gpuprov.shapes.cluster_spec import JobsSpec, NodesSpec, PersonSpec
from gpuprov.shapes.jobs import Job, Jobs, JobsShown, JobSubmitted
from gpuprov.shapes.submitter import VARIABLE, Submitter
from gpuprov.spec.serialize import dump_spec, load_spec_json
from tests.unit.spec.test_people import ANN, BOB, DORA

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.shapes.choices import RoleName
    from tests.fakes.engine import Command
    from tests.unit.cli.conftest import Typed

NOTHING = '{"schema": "gpuprov.jobs/v1", "version": 1, "jobs": [], "older": 0}'


def set_up(typed: Typed, *people: PersonSpec, submit_as: bool = True, role: RoleName = "slurm") -> None:
    """A cluster that shares a folder."""
    spec = typed.world.spec(nodes=NodesSpec(count=2, role=role), share=True, jobs=JobsSpec(submit_as=submit_as))
    typed.world.up(spec=changed(spec, people=people))


def begin(typed: Typed, *people: PersonSpec, submit_as: bool = True) -> list[tuple[str, ...]]:
    """The same; returns the commands of its programs, as they come."""
    set_up(typed, *people, submit_as=submit_as)
    asked: list[tuple[str, ...]] = []
    answer = typed.world.engine.answer

    def note(command: Command) -> ExecResult:
        if command.argv[:1] == ("runuser",):
            asked.append(command.argv)
            return ExecResult(exit_code=0, stdout=NOTHING, stderr="")
        return answer(command)

    typed.world.engine.answer = note
    return asked


def test_the_program_runs_as_the_person_on_a_folder_of_theirs(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    asked = begin(typed, ANN)
    typed(("jobs", "--as", "ann"), capsys)
    (argv,) = asked
    assert argv[:5] == ("runuser", "-u", "ann", "--", "env")
    assert "HOME=/shared/home/ann" in argv
    assert argv[argv.index("--folder") + 1] == "/shared/home/ann/jobs"


def test_without_it_all_is_as_before(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    asked = begin(typed, ANN)
    typed(("jobs",), capsys)
    (argv,) = asked
    assert argv[:3] == ("runuser", "-u", "work")
    assert argv[argv.index("--folder") + 1] == "/shared/jobs"


def test_that_jobs_of_people_are_not_listed_is_said(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    begin(typed, ANN, BOB)
    capsys.readouterr()
    assert main(("jobs",), host=typed.world.host) == 0
    assert "jobs of people are not listed (ann, bob); theirs: gpuprov jobs --as ann" in capsys.readouterr().err
    assert main(("jobs", "--as", "bob"), host=typed.world.host) == 0
    assert "not listed" not in capsys.readouterr().err


def test_somebody_of_a_directory_gets_a_home_and_who_is_in_none_is_refused(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = begin(typed, ANN)
    networks = typed.world.engine.networks
    name, network = next((name, one) for name, one in networks.items() if LABEL_SPEC in one.labels)
    spec = load_spec_json(network.labels[LABEL_SPEC], cluster="lab")
    spec = changed(spec, sssd="/etc/site/sssd.conf", people=(ANN, DORA))
    networks[name] = changed(network, labels={**network.labels, LABEL_SPEC: dump_spec(spec)})
    answer, known = typed.world.engine.answer, {"dora": 0, "carl": 3, "emma": 4}
    entered: list[str] = []

    def enter(command: Command) -> ExecResult:
        if any("mkhomedir_helper" in word for word in command.argv):
            entered.append(command.argv[-1])
            return ExecResult(exit_code=known[command.argv[-2]], stdout="", stderr="no room")
        return answer(command)

    typed.world.engine.answer = enter
    typed(("jobs", "--as", "dora"), capsys)
    assert asked[0][:3] == ("runuser", "-u", "dora")
    assert entered == ["/shared/home/dora"]
    typed(("jobs", "--as", "ann"), capsys)
    refusals = (("carl", 2, "such a person"), ("emma", 4, "no room"), ("e.x", 2, "its people: ann, dora"))
    for name, code, words in refusals:
        assert main(("jobs", "--as", name), host=typed.world.host) == code
        assert words in capsys.readouterr().err
    assert len(entered) == 3


@pytest.mark.parametrize(
    "argv",
    [
        ("submit", "--as", "ann", "--no-project", "--", "true"),
        ("jobs", "--as", "ann"),
        ("jobs", "show", "1", "--as", "ann"),
        ("jobs", "logs", "1", "--as", "ann"),
        ("jobs", "cancel", "1", "--as", "ann"),
        ("jobs", "pull", "1", "--as", "ann"),
        ("jobs", "rm", "1", "--yes", "--as", "ann"),
        ("jobs", "wait", "1", "--as", "ann"),
        ("program", "list", "--as", "ann"),
        ("program", "rm", "abcdef", "--as", "ann"),
        ("program", "page", "--as", "ann"),
        ("grid", "results", ".", "--as", "ann"),
        ("grid", "pull", ".", "--as", "ann"),
        ("grid", "cancel", ".", "--as", "ann"),
    ],
)
def test_nobody_acts_for_others_unless_the_spec_says_so(
    typed: Typed,
    capsys: pytest.CaptureFixture[str],
    argv: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "Project").mkdir()
    monkeypatch.chdir(tmp_path / "Project")
    asked = begin(typed, ANN, submit_as=False)
    capsys.readouterr()
    assert main(argv, host=typed.world.host) == 2
    said = capsys.readouterr().err
    assert "nobody acts for ann in cluster lab" in said
    assert "jobs: {submit_as: true}" in said
    assert asked == []


def test_nobody_acts_for_somebody_who_is_not_there(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    asked = begin(typed, BOB)
    capsys.readouterr()
    assert main(("jobs", "--as", "ann"), host=typed.world.host) == 2
    assert "its people: bob" in capsys.readouterr().err
    assert asked == []


def job(id_: str, *, by: str, person: str | UnsetType = UNSET) -> Job:
    submitter = Submitter(name=by, host="hoff", known_by="login", ssh_from=None, person=person)
    return Job(
        id=id_,
        name="train.py",
        state="waiting",
        submitter=submitter,
        submitted="2026-11-28T08:00:00Z",
        log=f"/shared/jobs/{id_}/log.txt",
    )


def answer_for_workers(typed: Typed, *jobs: Job) -> list[Command]:
    """The broker's node has these jobs; returns what it is asked."""
    asked: list[Command] = []
    answer = typed.world.engine.answer

    def note(command: Command) -> ExecResult:
        verb = command.argv[command.argv.index("/shared/jobs") + 1] if "/shared/jobs" in command.argv else ""
        if verb in ("", "workers"):
            return answer(command)
        asked.append(command)
        if verb == "submit":
            return ExecResult(exit_code=0, stdout=encode(JobSubmitted(id="9", jobs=("9",))).decode(), stderr="")
        if verb == "show":
            ids = command.argv[-1:]
            told = JobsShown(jobs=tuple(job for job in jobs if job.id in ids), submissions=())
            return ExecResult(exit_code=0, stdout=encode(told).decode(), stderr="")
        return ExecResult(exit_code=0, stdout=encode(Jobs(jobs=jobs, older=0)).decode(), stderr="")

    typed.world.engine.answer = note
    return asked


def test_jobs_of_workers_run_as_the_account_and_are_recorded_as_the_persons(
    typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up(typed, ANN, role="worker")
    asked = answer_for_workers(typed)
    assert typed(("submit", "--as", "ann", "--no-project", "--", "true"), capsys) == "9\n"
    (submitted,) = [command for command in asked if "submit" in command.argv]
    assert submitted.argv[:3] == ("runuser", "-u", "work")
    told = read(Submitter, submitted.environment[VARIABLE])
    assert (told.person, told.owner) == ("ann", "ann")


def test_jobs_of_a_person_among_those_of_workers(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    set_up(typed, ANN, BOB, role="worker")
    jobs = (job("1", by="root"), job("2", by="root", person="ann"), job("3", by="bob"))
    answer_for_workers(typed, *jobs)
    assert [row["id"] for row in json.loads(typed(("--json", "jobs"), capsys))["jobs"]] == ["1", "2", "3"]
    assert [row["id"] for row in json.loads(typed(("--json", "jobs", "--as", "ann"), capsys))["jobs"]] == ["2"]
    assert [row["id"] for row in json.loads(typed(("--json", "jobs", "--as", "bob"), capsys))["jobs"]] == ["3"]


@pytest.mark.parametrize(
    "argv", [("show", "3"), ("logs", "3"), ("cancel", "3"), ("rm", "3", "--yes"), ("pull", "3"), ("wait", "3")]
)
def test_jobs_of_others_are_left_alone(typed: Typed, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]) -> None:
    set_up(typed, ANN, BOB, role="worker")
    asked = answer_for_workers(typed, job("3", by="bob"))
    capsys.readouterr()
    assert main(("jobs", *argv, "--as", "ann"), host=typed.world.host) == 2
    said = capsys.readouterr().err
    assert "job 3 is not of ann" in said
    assert "gpuprov jobs --as ann" in said
    assert {command.argv[command.argv.index("/shared/jobs") + 1] for command in asked} == {"show"}


def test_nobody_goes_for_whom_workers_have_jobs(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    set_up(typed, ANN, BOB, role="worker")
    asked = answer_for_workers(typed, job("3", by="root", person="ann"), job("4", by="root"))
    capsys.readouterr()
    assert main(("person", "rm", "ann"), host=typed.world.host) == 2
    assert "evidence: 3 of ann (train.py) waiting\n" in capsys.readouterr().err
    assert "cancelled job 3 of ann (train.py) waiting\nremove people: ann (10001)" in typed(
        ("person", "rm", "ann", "--force"), capsys
    )
    assert [command.argv[-1] for command in asked if "cancel" in command.argv] == ["3"]
