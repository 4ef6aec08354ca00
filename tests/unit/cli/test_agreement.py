"""What is lost for good is agreed to: by the cluster's name on a terminal, by `--yes` elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.cli.session import Session
from gpuprov.drivers.base import ExecResult
from gpuprov.shapes.base import changed
from tests.fakes.slurm import FakeJob

if TYPE_CHECKING:
    from pathlib import Path

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
    assert main([*DOWN, "--engine", "lxd"], host=up.world.host) == 2
    assert "gpuprov cluster down lab --engine lxd --yes" in capsys.readouterr().err
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
    assert "there are jobs on" in said
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


SPEC = "version: gpuprov/v1\nname: lab\nnodes: {{count: {count}}}\nshare: {share}\ngpus: {{mode: simulated}}\n"


@pytest.fixture
def lab(typed: Typed, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Three nodes that share a folder, and one of create-node."""
    typed(["cluster", "up", "-n", "3", "--share", "--gpu-mode", "simulated", "--no-verify"], capsys)
    typed(["create-node", "web", "--role", "plain", "--gpu-mode", "simulated"], capsys)
    return typed


def file_of(folder: Path, count: int = 3, *, share: bool = True) -> list[str]:
    (folder / "lab.yaml").write_text(SPEC.format(count=count, share=str(share).lower()))
    return ["cluster", "up", "--no-verify", "-f", str(folder / "lab.yaml")]


@pytest.mark.parametrize(
    ("count", "share", "lost"),
    [
        (1, True, "2 nodes with all data on their disks: c[001-002]"),
        (3, False, "/shared of the nodes: /srv/gpuprov/lab, which stays on the host"),
    ],
)
def test_a_file_that_says_less_needs_yes(
    lab: Typed, tmp_path: Path, count: int, lost: str, capsys: pytest.CaptureFixture[str], *, share: bool
) -> None:
    before = lab.world.engine.dump()
    argv = file_of(tmp_path, count, share=share)
    assert main(argv, host=lab.world.host) == 2
    said = capsys.readouterr().err
    assert f"{argv[-1]} says less than cluster lab has: this would be lost" in said
    assert lost in said
    assert "--yes" in said
    assert lab.world.engine.dump() == before
    lab([*argv, "--yes"], capsys)
    assert lab.world.names == [f"c00{number}" for number in range(count)] + ["web"]


@pytest.mark.parametrize("answer", ["lab", "n"])
def test_a_terminal_is_asked_whether_a_file_may_take_nodes(
    lab: Typed, tmp_path: Path, answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(monkeypatch, answer)
    lab(file_of(tmp_path, 2), capsys, codes=(0 if answer == "lab" else 2,))
    assert terminal.asked == ["To go on, type lab"]
    assert ("c002" in lab.world.names) is (answer != "lab")


def test_what_is_typed_beside_a_file_is_that_persons_word(
    lab: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab([*file_of(tmp_path, 2, share=False), "-n", "1", "--share", "false"], capsys)
    assert lab.world.names == ["c000", "web"]


def test_a_file_that_says_as_much_or_more_asks_nothing(
    lab: Typed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "create" not in lab(file_of(tmp_path), capsys)
    lab(file_of(tmp_path, 4), capsys)
    assert "c003" in lab.world.names


def test_a_number_on_the_command_line_says_first_which_nodes_go_and_which_stay(
    lab: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["-v", "cluster", "up", "--no-verify", "-n", "2"], host=lab.world.host) == 0
    said = capsys.readouterr().err
    assert "remove 1 node with all data on its disk: c002" in said
    assert "keep node web (from create-node); --prune removes it" in said
    assert said.index("c002") < said.index("remove ..."), "it is said before the phase begins"
    assert lab.world.names == ["c000", "c001", "web"]


def test_nodes_that_were_made_after_the_question_stay(
    lab: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(monkeypatch, "lab")

    def grow(*question: str, **words: Any) -> str:
        lab.world.up(5, spec=changed(lab.world.spec(5), share=True))
        return Terminal.prompt(terminal, *question, **words)

    monkeypatch.setattr("click.prompt", grow)
    capsys.readouterr()
    assert main(file_of(tmp_path, 2), host=lab.world.host) == 2
    assert "c[003-004] would be removed as well" in capsys.readouterr().err
    assert "c004" in lab.world.names


def test_a_name_of_a_cluster_that_is_like_another_is_asked_back(
    up: Typed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    create = ["create-node", "web", "--cluster", "lba", "--role", "plain", "--gpus", "0"]
    before = up.world.engine.dump()
    assert main(create, host=up.world.host) == 2
    said = capsys.readouterr().err
    assert "error: there is no cluster lba; did you mean lab?\n" in said
    assert "gpuprov create-node web --cluster lab" in said
    assert "gpuprov cluster up -n 1 --name lba" in said
    somebody = Terminal(monkeypatch, "lab")
    assert main(create, host=up.world.host) == 2
    assert "no node was created" in capsys.readouterr().err
    assert up.world.engine.dump() == before
    somebody.answer = "lba"
    assert "created node web" in up(create, capsys)
    assert somebody.asked == ["To go on, type lba"] * 2
