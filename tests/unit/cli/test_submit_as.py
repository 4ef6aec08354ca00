"""`--as`: jobs of people, by those who may use the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.drivers.base import ExecResult
from gpuprov.shapes.cluster_spec import JobsSpec, PersonSpec
from tests.unit.spec.test_people import ANN, BOB

if TYPE_CHECKING:
    from tests.fakes.engine import Command
    from tests.unit.cli.conftest import Typed

NOTHING = '{"schema": "gpuprov.jobs/v1", "version": 1, "jobs": [], "older": 0}'


def begin(typed: Typed, *people: PersonSpec, submit_as: bool = True) -> list[tuple[str, ...]]:
    """A cluster that shares a folder; returns the commands of its programs, as they come."""
    from gpuprov.shapes.base import changed

    spec = changed(typed.world.spec(2), share=True, people=people, jobs=JobsSpec(submit_as=submit_as))
    typed.world.up(spec=spec)
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
    ],
)
def test_nobody_acts_for_others_unless_the_spec_says_so(
    typed: Typed, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
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
