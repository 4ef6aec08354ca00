"""What is lost for good is agreed to: by the cluster's name on a terminal, by `--yes` elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.cli.session import Session
from gpuprov.drivers.base import ExecResult
from tests.fakes.slurm import FakeJob

if TYPE_CHECKING:
    from tests.unit.cli.conftest import Typed

DOWN = ["cluster", "down"]


class Terminal:
    """Somebody at a keyboard, and what they were asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
        self.asked: list[str] = []
        self.answer = answer
        monkeypatch.setattr(Session, "interactive", True)
        monkeypatch.setattr("click.prompt", self.prompt)

    def prompt(self, question: str, *, default: str, show_default: bool, err: bool) -> str:
        assert err, "stdout is the result's"
        assert not default
        assert not show_default
        self.asked.append(question)
        return self.answer


@pytest.fixture
def up(typed: Typed) -> Typed:
    typed.world.begin_with(2)
    return typed


@pytest.fixture
def busy(up: Typed) -> Typed:
    """A job runs, another waits."""
    up.world.slurm.queue = [FakeJob(id="17", nodes="c001"), FakeJob(id="18", state="PD")]
    return up


def test_a_script_needs_yes(up: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    before = up.world.engine.dump()
    for words in ((), ("--force",), ("--drain",)):
        assert main([*DOWN, *words], host=up.world.host) == 2
        said = capsys.readouterr().err
        assert "error: the cluster lab would be removed\n" in said
        assert "2 nodes with all data on their disks: c[000-001]" in said
        assert "gpuprov cluster down lab --yes" in said
    assert up.world.engine.dump() == before
    up([*DOWN, "--yes"], capsys)
    assert up.world.names == []


def test_yes_does_not_end_jobs(busy: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(DOWN, host=busy.world.host) == 2
    said = capsys.readouterr().err
    assert "job 17 of alice (train) on c001, job 18 of alice (train) waiting" in said
    assert "--yes, with --drain to wait for the jobs, or with --force to end them" in said
    assert main([*DOWN, "--yes"], host=busy.world.host) == 2
    said = capsys.readouterr().err
    assert "jobs would end" in said
    assert "--drain to wait for them, or with --force to end them" in said
    assert busy.world.names == ["c000", "c001"]
    busy([*DOWN, "--yes", "--force"], capsys)
    assert busy.world.names == []


@pytest.mark.parametrize("answer", ["lab", "y", "", "two"])
def test_a_terminal_asks_for_the_name(
    up: Typed, answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(monkeypatch, answer)
    before = up.world.engine.dump()
    code = main(DOWN, host=up.world.host)
    said = capsys.readouterr().err
    assert terminal.asked == ["To go on, type lab"]
    assert "the cluster lab would be removed:\n  2 nodes with all data on their disks: c[000-001]\n" in said
    if answer == "lab":
        assert (code, up.world.names) == (0, [])
    else:
        assert code == 2
        assert "the cluster lab is kept" in said
        assert up.world.engine.dump() == before


def test_a_terminal_is_told_of_programs_in_nodes(
    up: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Terminal(monkeypatch, "no")
    answer = up.world.engine.answer
    shell = "90\t0\tbash\t-bash \n95\t90\tjupyter-lab\tpython3 jupyter-lab \n"
    up.world.engine.answer = lambda command: (
        ExecResult(exit_code=0, stdout=shell, stderr="") if "/cmdline" in command.argv[-1] else answer(command)
    )
    up(DOWN, capsys, codes=(2,))
    assert main(DOWN, host=up.world.host) == 2
    said = capsys.readouterr().err
    assert "  programs in c000: -bash, python3 jupyter-lab\n" in said


def test_whoever_has_jobs_is_told_so_before_anything_is_typed(
    busy: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(monkeypatch, "lab")
    busy(DOWN, capsys, codes=(2,))
    assert terminal.asked == []
    busy([*DOWN, "--force"], capsys)
    assert terminal.asked == ["To go on, type lab"]
    assert busy.world.names == []


def test_what_is_not_there_needs_no_question(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed([*DOWN, "--yes"], capsys)  # keys, say, that an earlier one had
    for argv in (DOWN, [*DOWN, "--purge"]):
        assert typed(argv, capsys) == "unchanged\n"
    Terminal(monkeypatch, "lab").prompt = lambda *_, **__: pytest.fail("asked")  # type: ignore[method-assign]
    assert typed(DOWN, capsys) == "unchanged\n"


def test_networks_alone_are_told_of(up: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    up.world.engine.nodes.clear()
    assert main(DOWN, host=up.world.host) == 2
    assert "networks: gpbr0, gpbr1" in capsys.readouterr().err
