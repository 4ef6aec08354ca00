"""`gpuprov run` and its verbs as they are typed, here and at a machine that has hosts."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.cli.run import render_runs
from gpuprov.cli.tables import Screen
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_GPUS
from gpuprov.shapes.node import Exposure
from gpuprov.shapes.runs import RunRow
from tests.fakes.engine import FakeNode
from tests.schemas import validate
from tests.unit.cli.test_spanning import AWAY, at_the_controller

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Recording
    from tests.unit.cli.conftest import Typed
    from tests.unit.cli.test_spanning import Typing

IMAGE = ("--engine", "lxd", "--image", "gpuprov-image-plain")
TRAIN = ("run", "--name", "train", "--detach", *IMAGE)


def test_one_that_stays_is_told_by_its_name_and_found_by_it(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed((*TRAIN, "--gpus", "1", "--", "python3", "train.py"), capsys) == "train\n"
    assert typed(("run", "ps"), capsys).splitlines()[1].split()[:4] == ["train", "Up", "5", "minutes"]
    document = json.loads(typed(("--json", "run", "ps"), capsys))
    validate(document)
    assert [(row["name"], row["state"], row["detached"]) for row in document["runs"]] == [("train", "running", True)]
    assert "train.run (lxd" in typed(("gpus",), capsys)
    assert typed(("run", "stop", "train"), capsys) == "stopped train\n"
    assert typed(("run", "stop", "train"), capsys) == "unchanged\n"
    assert typed(("run", "rm", "train"), capsys) == "removed train\n"
    assert typed(("run", "rm", "train"), capsys) == "unchanged\n"
    assert typed(("run", "ps"), capsys) == "no containers of `gpuprov run`\n"


def test_with_json_the_one_that_was_started_is_the_document(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(typed(("--json", *TRAIN, "--", "true"), capsys))
    validate(document)
    assert [row["name"] for row in document["runs"]] == ["train"]


def test_a_terminal_is_told_what_can_be_done_next(
    typed: Typed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuprov.cli.session.screen_of", lambda *_: Screen(columns=80))
    said = typed((*TRAIN, "--", "true"), capsys).splitlines()
    assert said[:2] == ["train", "next:"]
    assert "  gpuprov run logs -f train" in said


def test_logs_are_the_commands_own_streams(typed: Typed, capfd: pytest.CaptureFixture[str]) -> None:
    typed((*TRAIN, "--", "python3"), capfd)
    main(["run", "logs", "--tail", "3", "-f", "train"], host=typed.world.host)
    said = capfd.readouterr()
    assert (said.out, said.err) == ("python3 follow=True tail=3\n", "said on stderr\n")


def test_a_log_does_not_move_the_cursor_of_a_terminal(
    typed: Typed, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed((*TRAIN, "--", "10%\r20%\x1b[2J\x1b[31mred\x1b[0m"), capfd)
    typed(("run", "logs", "train"), capfd)
    monkeypatch.setattr("gpuprov.cli.session.screen_of", lambda *_: Screen(columns=80))
    said = typed(("run", "logs", "train"), capfd)
    assert said == "20%\\x1b[2J\x1b[31mred\x1b[0m follow=False tail=None\n"


def test_a_verb_is_meant_by_its_name_alone(typed: Typed, capfd: pytest.CaptureFixture[str]) -> None:
    seen = []
    answer = typed.world.engine.answer

    def note(command: Any) -> Any:
        seen.append(command.argv)
        return answer(command)

    typed.world.engine.answer = note
    for argv in (("run", *IMAGE, "--", "ps", "aux"), ("run", *IMAGE, "ps", "aux")):
        typed(argv, capfd, codes=(127,))
    assert seen == [("ps", "aux"), ("ps", "aux")]
    typed(("run", "-q", "ps"), capfd)
    assert len(seen) == 2


def test_variables_of_this_shell_and_of_a_file(
    typed: Typed, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HERE", "a=b")
    monkeypatch.delenv("GONE", raising=False)
    file = tmp_path / "vars"
    file.write_text("OF_FILE=1\nBOTH=file\n")
    typed((*TRAIN, "-e", "HERE", "-e", "GONE", "-e", "BOTH=typed", "--env-file", str(file), "--", "true"), capfd)
    node = typed.world.engine.nodes["train.run"]
    assert {key: node.environment[key] for key in ("HERE", "OF_FILE", "BOTH")} == {
        "HERE": "a=b", "OF_FILE": "1", "BOTH": "typed",
    }  # fmt: skip
    assert node.terms.unset == ("GONE",)


def test_all_that_is_wrong_is_told_at_once(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    before = typed.world.engine.dump()
    wrong = (
        "--name",
        "A b",
        "--publish",
        "x",
        "--user",
        "",
        "--restart",
        "always",
        "--env-file",
        "/nowhere",
        "-e",
        "1",
    )
    assert main(["run", *wrong, "--mount", "here"], host=typed.world.host) == 2
    said = capsys.readouterr().err
    assert "7 things are wrong with the command; nothing was started" in said
    for words in (
        "no command given after --",
        "--name 'A b' is not a valid name",
        "--publish 'x' is not [IP:]HOST:CONTAINER",
        "is not USER or USER:GROUP",
        "--restart always requires --detach",
        "--env-file /nowhere cannot be read",
        "'here' is not a valid mount",
    ):
        assert words in said
    assert typed.world.engine.dump() == before


def test_with_a_standard_input_the_engine_s_client_runs_it_and_nothing_is_left(
    typed: Typed, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def attach(argv: list[str]) -> int:
        (node,) = typed.world.engine.nodes.values()
        seen.append((argv, node.terms.reads, node.terms.terminal, LABEL_GPUS in node.labels))
        return 7

    monkeypatch.setattr("gpuprov.core.execution.run_attached", attach)
    typed(("run", "--name", "shell", "-i", "--gpus", "1", *IMAGE, "--", "bash"), capfd, codes=(7,))
    assert seen == [(["echo", "shell.run", "bash"], True, False, True)]
    assert typed.world.engine.nodes == {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-it",), "-t requires a terminal"),
        (("-i", "-d"), "-i and --detach exclude each other"),
        (("-i", "--host", "hoff"), "-i and --host exclude each other"),
    ],
)
def test_streams_that_it_cannot_have_are_refused(
    typed: Typed, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    assert main(["run", *options, *IMAGE, "--", "bash"], host=typed.world.host) == 2
    assert words in capsys.readouterr().err
    assert typed.world.engine.nodes == {}


@pytest.mark.parametrize(
    ("argv", "code"),
    [((*TRAIN, "--host", "nowhere", "--", "true"), 2), (("run", "logs", "train"), 2), (("run", "stop", "a b"), 2)],
)
def test_what_is_not_there_is_refused(
    typed: Typed, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], code: int
) -> None:
    assert main(list(argv), host=typed.world.host) == code
    assert "fix: " in capsys.readouterr().err


def test_the_table_fits_a_terminal() -> None:
    row = RunRow(
        name="train",
        node="train.run",
        host="rack-7-gpu-12",
        engine="docker",
        state="exited",
        exit_code=0,
        status="Exited (0) 23 hours ago",
        detached=True,
        gpus=("GPU-1", "GPU-2"),
        devices=("/dev/nvidia0", "/dev/nvidia1"),
        sharing="exclusive",
        simulated=True,
        image="registry.example/team/pytorch:2.9-cuda13",
        created="2026-11-28T07:00:00Z",
        command="torchrun --nproc-per-node 2 train.py --data /data --epochs 100 --out /results/2026-11-28/run-7",
        ports=(Exposure(host_port=8080, node_port=80, listen="0.0.0.0"),),
    )
    for with_host in (False, True):
        table = render_runs([row], screen=Screen(columns=80), with_host=with_host)
        assert max(len(line) for line in table.splitlines() if not line.startswith("not shown")) <= 80
        assert "train" in table
        assert "nvidia0,nvidia1 SIMULATED" in " ".join(table.split()).replace("nvidia0, ", "nvidia0,")


@pytest.fixture
def lab(
    tmp_path: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Typing:
    """Somebody at a machine without an engine, who has added hoff and hinton."""
    return at_the_controller(tmp_path, recording, monkeypatch, capsys)


def test_over_hosts_it_is_started_found_stopped_and_removed(lab: Typing) -> None:
    assert lab.type(*TRAIN, "--host", "hinton", "--gpus", "1", "--", "true") == "train\n"
    assert list(lab.hosts.worlds["hinton"].engine.nodes) == ["train.run"]
    assert [(row["name"], row["host"]) for row in lab.json("run", "ps")["runs"]] == [("train", "hinton")]
    lab.type("run", "logs", "-f", "--tail", "5", "train", expect=5)
    assert [(host, words[1:]) for host, words in lab.hosts.attached] == [
        ("hinton", ("run", "logs", "--follow", "--tail", "5", "train"))
    ]
    assert lab.type("run", "stop", "train") == "hinton: stopped train\n"
    assert lab.type("run", "rm", "train") == "hinton: removed train\n"
    assert lab.hosts.worlds["hinton"].engine.nodes == {}
    recorded = {name: world.host.run_records.read(0).spans for name, world in lab.hosts.worlds.items()}
    assert {name: len(spans) > 0 for name, spans in recorded.items()} == {"hoff": False, "hinton": True}
    assert recorded["hinton"][-1].ended is not None


def test_in_the_foreground_of_another_host_nothing_is_left_and_no_value_is_on_a_command_line(
    lab: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    engine = lab.hosts.worlds["hoff"].engine
    seen = []

    def attach(_machine: object, command: tuple[str, ...], *, terminal: bool) -> int:
        assert not terminal
        seen.append((tuple(command), *(node.environment["TOKEN"] for node in engine.nodes.values())))
        for node in engine.nodes.values():
            node.status = "stopped"
        return 0

    monkeypatch.setattr(lab.hosts, "attach", attach)
    lab.type("run", *IMAGE, "--host", "hoff", "-e", "TOKEN", "--", "true")
    ((command, value),) = seen
    assert value == "secret"
    assert "secret" not in " ".join(command)
    assert command[1:4] == ("run", "logs", "--follow")
    assert engine.nodes == {}


def test_a_connection_that_breaks_ends_it(lab: Typing) -> None:
    lab.hosts.attach_status = 130
    lab.type("run", *IMAGE, "--host", "hoff", "--", "true", expect=130)
    assert lab.hosts.worlds["hoff"].engine.nodes == {}


def test_a_name_of_two_hosts_is_asked_back(lab: Typing) -> None:
    for host in ("hoff", "hinton"):
        lab.type(*TRAIN, "--host", host, "--", "true")
    lab.type("run", "stop", "train", expect=2)
    assert "more than one host has a container train" in lab.errors
    assert "ssh hoff.example gpuprov run logs train" in lab.errors


def test_a_host_that_is_away_may_have_it(lab: Typing) -> None:
    lab.type(*TRAIN, "--host", "hoff", "--", "true")
    lab.hosts.away = {"hinton"}
    assert lab.type("run", "stop", "train") == "hoff: stopped train\n"
    lab.type("run", "rm", "eval", expect=AWAY)
    lab.type("run", "stop", "eval", expect=AWAY)
    assert "no host that answers has a container eval" in lab.errors
    assert [row["name"] for row in lab.json("run", "ps", expect=AWAY)["runs"]] == ["train"]


def test_a_node_and_a_container_of_one_name(typed: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    typed((*TRAIN, "--", "true"), capsys)
    assert main(["show", "train"], host=typed.world.host) == 2
    assert "train is a container of `gpuprov run`" in capsys.readouterr().err
    assert main(["show", "train.run"], host=typed.world.host) == 2
    assert "gpuprov run ps" in capsys.readouterr().err
    typed.world.engine.nodes["train"] = FakeNode(name="train", made_as="train", labels={LABEL_CLUSTER: "lab"})
    assert typed(("run", "rm", "--force", "train"), capsys) == "removed train\n"
    assert "train" in typed.world.engine.nodes


def test_a_file_of_variables_is_limited(typed: Typed, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "vars"
    file.write_text("A=" + "x" * 1_000_001)
    for path in (str(file), os.devnull + "/x"):
        assert main([*TRAIN, "--env-file", path, "--", "true"], host=typed.world.host) == 2
        assert "cannot be read" in capsys.readouterr().err
