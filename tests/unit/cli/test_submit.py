"""`gpuprov submit` and `gpuprov jobs`: the program in the fake node is the real one."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.shell_completion import ShellComplete

from gpuprov.cli.jobs_table import name_waits
from gpuprov.cli.main import main, root
from gpuprov.cli.options import complete_jobs
from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.core.group_files import LOCK_NAME, Gates
from gpuprov.drivers.base import LABEL_SPEC, ExecResult
from gpuprov.machine.local import LocalHost
from gpuprov.machine.survey import EngineDoor
from gpuprov.shapes.base import changed, read
from gpuprov.shapes.cluster_spec import JobsSpec
from gpuprov.shapes.jobs import Jobs
from gpuprov.shapes.submitter import Submitter
from tests.fakes.jobs_in_nodes import give_jobs
from tests.schemas import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from tests.fakes.engine import Command
    from tests.fakes.forked_programs import ForkedPrograms
    from tests.fakes.jobs_in_nodes import JobsInNodes
    from tests.fakes.world import World
    from tests.unit.cli.conftest import Typed


class Controller:
    """What is typed on a host whose cluster takes jobs."""

    def __init__(self, typed: Typed, jobs: JobsInNodes, capsys: pytest.CaptureFixture[str], project: Path) -> None:
        self.world, self.jobs, self.project = typed.world, jobs, project
        self._capsys = capsys

    def __call__(self, *argv: str, code: int = 0) -> str:
        self._capsys.readouterr()
        found = main(argv, host=self.world.host)
        self.said = self._capsys.readouterr()
        assert found == code, self.said
        return self.said.out

    def document(self, *argv: str, code: int = 0) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self("--json", *argv, code=code))
        validate(document)
        return document

    def refused(self, *argv: str, code: int = 2) -> tuple[str, str, str]:
        """What failed, the evidence and the fix."""
        error = self.document(*argv, code=code)["error"]
        return error["what"], error["evidence"], error["fix"]

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path


@pytest.fixture
def controller(
    typed: Typed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: ForkedPrograms,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Controller]:
    """Two nodes, a project in the current folder, and a Slurm that runs what it is given."""
    typed.world.begin_with(2)
    (tmp_path / "jobs").mkdir()
    jobs = give_jobs(typed.world, tmp_path / "jobs", monkeypatch, programs)
    jobs.share()
    typed.world.engine.faults.clear()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield Controller(typed, jobs, capsys, tmp_path / "project")
    jobs.finish()


@pytest.fixture
def held(controller: Controller) -> Controller:
    """The same with a Slurm that starts nothing."""
    controller.jobs.slurm.hold()
    return controller


@pytest.mark.slow
def test_a_command_is_submitted_from_the_current_folder_and_runs_on_its_files(controller: Controller) -> None:
    controller.write("train.py", "import sys, helper; print(helper.WORD, sys.argv[1:])", mode=0o600)
    controller.write("helper.py", "WORD = 'trained'")
    controller.write("bin/go", "#!/bin/sh\nexec ./really/go\n", mode=0o700)
    controller.write("lib/go", "#!/bin/sh\necho went\n", mode=0o755)
    (controller.project / "really").symlink_to("lib")
    assert controller("submit", "--gpus", "0", "--", "sh", "-c", "python3 train.py --lr 0.1; bin/go") == "1\n"
    assert controller.jobs.held() == [], "the program has a copy of its own now"
    controller("jobs", "wait", "1")
    assert controller("jobs", "logs", "1") == "trained ['--lr', '0.1']\nwent\n"
    (row,) = controller.document("jobs")["jobs"]
    assert (row["id"], row["name"], row["state"], row["tries"], row["exit_status"]) == ("1", "sh", "done", 1, 0)
    assert row["node"] == os.uname().nodename


@pytest.mark.slow
def test_no_lock_is_taken_and_every_question_has_a_limit(controller: Controller) -> None:
    limits = []
    answer = controller.world.engine.answer

    def note(command: Command) -> ExecResult:
        limits.append(command.timeout_s)
        return answer(command)

    controller.world.engine.answer = note
    Gates(folder=controller.world.host.folder).file(LOCK_NAME).unlink(missing_ok=True)
    controller("submit", "--gpus", "0", "--wait", "--", "true")
    for verb in ("show", "logs", "cancel", "wait"):
        controller("jobs", verb, "1")
    controller("jobs")
    assert all(limits)
    assert len(limits) >= 7
    assert not Gates(folder=controller.world.host.folder).file(LOCK_NAME).exists()


def test_runs_of_a_sweep_have_numbers_and_slurm_is_told_the_options(held: Controller) -> None:
    held.write("seed.py", "")
    options = ("--name", "sweep", "--count", "100", "--at-most", "8", "--time", "12h", "--retries", "2")
    document = held.document("submit", *options, "--memory", "8GiB", "--gpus", "1", "--", "python3", "seed.py", "{n}")
    assert (document["id"], len(document["jobs"]), document["jobs"][-1]) == ("1", 100, "1.99")
    assert (document["host"], document["cluster"]) == ("here", "lab")
    (call,) = held.jobs.slurm.typed("sbatch")
    assert {"--job-name=sweep", "--array=0-99%8", "--gres=gpu:1", "--mem=8192M", "--time=2160"} <= set(call)
    (order,) = held.jobs.orders()
    assert (order["time_limit_s"], order["memory_bytes"], order["retries"]) == (43200, 8 * 1024**3, 2)
    assert len(held.document("jobs")["jobs"]) == 100
    (shown,) = held.document("jobs", "show", "1.7")["submissions"]
    assert held.document("jobs", "--cluster", "lab", "1.7")["submissions"] == [shown], "`show` is left out"
    assert shown["order"]["project"] is not None
    assert shown["order"]["count"] == 100
    assert "runs      100" in held("jobs", "show", "1.7")
    assert [row["state"] for row in held.document("jobs", "cancel", "1")["jobs"]] == ["cancelled"] * 100


def test_who_submitted_is_shown_and_a_claim_is_called_one(held: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, str | None] = {"name": "alice", "host": "hoff", "known_by": "login", "ssh_from": "192.0.2.7"}
    monkeypatch.setattr("gpuprov.roles.work.node_program.get_submitter", lambda _: read(Submitter, told))
    held("submit", "--no-project", "--", "true")
    told |= {"known_by": "claim", "ssh_from": None}
    held("submit", "--no-project", "--count", "2", "--", "true")
    rows = held.document("jobs")["jobs"]
    assert [(row["id"], row["submitter"]["known_by"]) for row in rows] == [
        ("1", "login"), ("2.0", "claim"), ("2.1", "claim"),
    ]  # fmt: skip
    assert "by        alice on hoff, who logged in there; by ssh from 192.0.2.7\n" in held("jobs", "show", "1")
    assert "by        alice on hoff, a claim\n" in held("jobs", "show", "2")
    # one of an image of before, and one that a job has written into
    (held.jobs.folder / "jobs/1/submitter.json").unlink()
    (held.jobs.folder / "jobs/2/submitter.json").write_text('{"name": "\\u001b[2J"}')
    assert [row["submitter"] for row in held.document("jobs")["jobs"]] == [None] * 3
    assert "by  " not in held("jobs", "show", "1", "2")


def test_a_job_has_the_limits_of_the_spec_unless_its_own_are_given(held: Controller) -> None:
    held.world.record(jobs=JobsSpec(time="12h", memory="4GiB"))
    for options in ((), ("--time", "1m"), ("--memory", "200MiB")):
        held("submit", "--no-project", *options, "--", "true")
    calls = held.jobs.slurm.typed("sbatch")
    asked = [{word for word in call if word.startswith(("--time", "--mem"))} for call in calls]
    assert asked == [{"--time=720", "--mem=4096M"}, {"--time=1", "--mem=4096M"}, {"--time=720", "--mem=200M"}]
    orders = [(order["time_limit_s"], order["memory_bytes"]) for order in held.jobs.orders()]
    assert orders == [(43200, 4 * 1024**3), (60, 4 * 1024**3), (43200, 200 * 1024**2)]
    assert "time      43200 s" in held("jobs", "show", "1")


def test_submit_removes_what_ended_longer_ago_than_the_spec_keeps_it(held: Controller) -> None:
    held.world.record(jobs=JobsSpec(keep="24h"))
    submit = ("submit", "--no-project", "--gpus", "0", "--", "true")
    for _ in range(4):
        held(*submit)
    held("jobs", "cancel", "2", "3")
    (held.jobs.folder / "jobs/1/ended").touch()  # by a job, of one that waits as 4 does
    for number, hours in ((1, 25), (2, 25), (3, 23), (4, 25)):
        folder = held.jobs.folder / "jobs" / str(number)
        for path in (folder, *folder.rglob("*")):
            os.utime(path, (time.time() - hours * 3600,) * 2)
    assert held(*submit) == "5\n"
    assert "removed jobs that ended longer ago than jobs.keep: 2\n" in held.said.err
    assert [row["id"] for row in held.document("jobs")["jobs"]] == ["1", "3", "4", "5"]


def test_nothing_is_submitted_without_the_limits_of_a_spec_that_cannot_be_read(held: Controller) -> None:
    held.world.record(jobs=JobsSpec(time="12h"))
    network = held.world.engine.networks["gpbr0"]
    labels = {**network.labels, LABEL_SPEC: network.labels[LABEL_SPEC].replace('"jobs"', '"work"')}
    held.world.engine.networks["gpbr0"] = changed(network, labels=labels)
    what, evidence, fix = held.refused("submit", "--no-project", "--", "true")
    assert what == "the spec recorded with cluster lab cannot be read"
    assert "work: is not known; did you mean worker?" in evidence
    assert "gpuprov cluster up --name lab -f FILE" in fix
    assert held.jobs.orders() == []
    assert held.document("jobs")["jobs"] == []


@pytest.mark.slow
def test_a_function_gets_its_arguments_as_yaml_reads_them(controller: Controller) -> None:
    controller.write("app/tasks.py", "def train(**values):\n    print(sorted(values.items()))\n")
    values = ("a=128", "b=1e-3", "c=true", "d=no", "e=", "f='12'", "g=2026-01-01", "h={n}", "i=x=y", "j=-.5")
    given = [word for value in values for word in ("-a", value)]
    controller("submit", "app.tasks:train", *given, "--count", "1", "--gpus", "0", "--wait")
    read = {"a": 128, "b": 0.001, "c": True, "d": "no", "e": None, "f": "12", "g": "2026-01-01", "h": 0}
    assert controller("jobs", "logs", "1.0").strip() == str([*read.items(), ("i", "x=y"), ("j", -0.5)])


@pytest.mark.slow
def test_a_bare_command_takes_no_files(controller: Controller) -> None:
    controller.write("file", "")
    controller("submit", "--no-project", "--gpus", "0", "--wait", "--", "ls")
    assert controller("jobs", "logs", "1") == ""
    assert controller.jobs.orders()[0]["project"] is None
    assert "write_tree" not in [step for step, _ in controller.world.engine.faults.passed]


@pytest.mark.slow
def test_the_exit_code_of_a_wait_says_whether_all_is_done(controller: Controller) -> None:
    out = controller("submit", "--gpus", "0", "--wait", "--", "sh", "-c", "echo no luck; exit 3", code=1)
    assert out.splitlines()[1].split()[:4] == ["1", "sh", "failed", "1"]
    assert "exit status 3: no luck" in out
    assert "submitted 1" in controller.said.err
    assert controller.document("jobs", "wait", "1", code=1)["jobs"][0]["exit_status"] == 3
    assert "reason    exit status 3: no luck" in controller("jobs", "show", "1")


def test_a_wait_that_takes_long_is_many_short_ones(held: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.stories.jobs.WAIT_S", 0)
    held("submit", "--no-project", "--", "true")
    waits = 0

    def end(command: Command) -> ExecResult:
        nonlocal waits
        if "wait" in command.argv:
            waits += 1
        if waits == 3:
            held.jobs.say = None
            for task in held.jobs.slurm.tasks.iterdir():
                task.unlink()
        elif waits == 2:
            raise EngineError("gone", evidence="restarted", fix="gpuprov start c000")
        found, held.jobs.say = held.jobs.say, None
        try:
            return held.jobs(command)
        finally:
            held.jobs.say = found if waits < 3 else None

    held.jobs.say = end
    monkeypatch.setattr("gpuprov.stories.jobs.RETRY_S", 0.0)
    assert "lost" in held("jobs", "wait", "1", code=1)
    assert "gone; asking again" in held.said.err


@pytest.mark.parametrize(("wish", "state"), [((), "waiting"), (("--on-interrupt", "cancel"), "cancelled")])
def test_ctrl_c_leaves_the_jobs_or_cancels_them(held: Controller, wish: Sequence[str], state: str) -> None:
    def interrupt(command: Command) -> ExecResult:
        held.jobs.say = None
        if "wait" in command.argv:
            raise KeyboardInterrupt
        result = held.jobs(command)
        held.jobs.say = interrupt
        return result

    held.jobs.say = interrupt
    held("submit", "--wait", *wish, "--no-project", "--", "true", code=130)
    assert ("cancelled 1" if wish else "1 is waiting; to end it: gpuprov jobs cancel 1") in held.said.err
    assert held.document("jobs")["jobs"][0]["state"] == state


def test_ctrl_c_while_it_is_submitted_says_where_to_look(held: Controller) -> None:
    def interrupt(_command: Command) -> ExecResult:
        raise KeyboardInterrupt

    held.write("x", "")
    held.jobs.say = interrupt
    held("submit", "--", "true", code=130)
    assert "see whether it was submitted: gpuprov jobs" in held.said.err
    assert held.jobs.held() == []


@pytest.mark.slow
def test_a_log_is_followed_until_the_job_has_ended(controller: Controller) -> None:
    controller("submit", "--no-project", "--gpus", "0", "--", "sh", "-c", "echo one; sleep 1; echo two")
    assert controller("jobs", "logs", "1", "--follow") == "one\ntwo\n"
    pieces = [json.loads(line) for line in controller("--json", "jobs", "logs", "1", "--follow").splitlines()]
    assert [validate(piece) for piece in pieces] == ["gpuprov.job-log/v1"]
    assert (pieces[0]["text"], pieces[0]["whole"], pieces[0]["start"]) == ("one\ntwo\n", True, 0)


@pytest.mark.parametrize(
    ("typed_so_far", "offered"), [("", ["1", "2", "2.0", "2.1"]), ("2.", ["2.0", "2.1"]), ("7", [])]
)
def test_a_shell_completes_the_ids_of_jobs(
    held: Controller, monkeypatch: pytest.MonkeyPatch, typed_so_far: str, offered: list[str]
) -> None:
    held("submit", "--", "true")
    held("submit", "--count", "2", "--", "true")
    monkeypatch.setattr(LocalHost, "engines", held.world.host.engines)  # completion has no session
    monkeypatch.setattr("gpuprov.cli.options.COMPLETION_S", 30.0)
    complete = ShellComplete(root(), {}, "gpuprov", "_GPUPROV_COMPLETE")
    for verb in ("show", "logs", "cancel", "wait", "rm", "pull"):
        assert [item.value for item in complete.get_completions(["jobs", verb], typed_so_far)] == offered
    after_jobs = [item.value for item in complete.get_completions(["jobs"], typed_so_far)]
    assert [word for word in after_jobs if word[:1].isdigit()] == offered
    assert "show" in after_jobs or typed_so_far
    assert complete.get_completions(["jobs", "show", "--cluster", "two"], "") == []


def test_for_ids_of_jobs_an_engine_without_nodes_is_not_opened(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def door(name: str, *nodes: str) -> EngineDoor:
        def enter() -> Driver:
            opened.append(name)
            return world.driver

        return EngineDoor(name=name, open=enter, installed=lambda: True, names=lambda: nodes)

    monkeypatch.setattr(LocalHost, "engines", (door("lxd", "c000"), door("docker")))
    monkeypatch.setattr("gpuprov.cli.options.COMPLETION_S", 30.0)
    assert complete_jobs(click.Context(root()), click.Argument(["job"]), "") == []
    assert opened == ["lxd"]


@pytest.mark.slow
def test_of_a_long_log_the_end_is_shown(controller: Controller) -> None:
    controller("submit", "--no-project", "--gpus", "0", "--wait", "--", "sh", "-c", "seq -w 0 799999")
    document = controller.document("jobs", "logs", "1")
    assert (document["start"], document["size"], document["next"]) == (1_600_004, 5_600_000, 5_600_000)
    assert document["text"].splitlines()[-1] == "799999"
    assert len(document["text"]) == 3_999_996
    assert "of 5600000 bytes, the first 1600004 are left out" in controller.said.err


def test_what_changes_is_told(held: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    def rounds(_interval_s: float, _clock: object) -> Iterator[None]:
        yield
        yield
        held.jobs.slurm.tasks.joinpath("101_0").unlink()
        yield

    monkeypatch.setattr("gpuprov.core.rounds.every", rounds)
    held("submit", "--no-project", "--name", "one", "--", "true")
    table, change = held("jobs", "--watch").rstrip().rsplit("\n", 1)
    assert table.splitlines()[1].split()[:3] == ["1", "one", "waiting"]
    assert change.endswith(" job 1 (one): lost: it is no longer queued, and how it ended was not recorded")


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "nothing": (("submit",), "there is nothing to submit"),
    "nothing behind": (("submit", "--name", "x", "--"), "there is nothing to submit"),
    "a command before": (("submit", "python3", "train.py"), "gpuprov submit -- python3 train.py"),
    "a command with options": (
        ("submit", "--gpus=2", "--name", "a b", "-v", "python3", "x.py", "--lr", "3"),
        "gpuprov submit --gpus=2 --name 'a b' -v -- python3 x.py --lr 3",
    ),
    "an option misspelt before a command": (("submit", "--tme", "1h", "python3"), "No such option '--tme'"),
    "an option misspelt after a function": (("submit", "app:train", "--tme", "1h"), "No such option '--tme'"),
    "a function without colon": (("submit", "train"), "is not MODULE:FUNCTION"),
    "both": (("submit", "app:train", "--", "true"), "a command or a function, not both"),
    "arguments of a command": (("submit", "-a", "x=1", "--", "true"), "-a is for functions"),
    "an argument without value": (("submit", "app:train", "-a", "x"), "is not NAME=VALUE"),
    "an argument twice": (("submit", "app:train", "-a", "x=1", "-a", "x=2"), "is given twice"),
    "open quotes": (("submit", "app:train", "-a", "x='1"), "begins with a quote"),
    "a huge number": (("submit", "app:train", "-a", "x=1e999"), "too large"),
    "an odd module": (("submit", "app/x:train"), "FUNCTION: is 'app/x:train'"),
    "no such function": (("submit", "app:train"), "app.py: function: is not among the project's files"),
    "function without project": (("submit", "app:train", "--no-project"), "--project: is missing"),
    "count 0": (("submit", "--count", "0", "--", "true"), "--count: is 0 (allowed: 1 to 10,000)"),
    "count huge": (("submit", "--count", "10001", "--", "true"), "--count: is 10001"),
    "count endless": (("submit", "--count", "9" * 50, "--", "true"), "--count: is 999"),
    "count a word": (("submit", "--count", "x", "--", "true"), "not a valid integer"),
    "at most alone": (("submit", "--at-most", "2", "--", "true"), "--at-most: is given without a count"),
    "at most 0": (("submit", "--count", "2", "--at-most", "0", "--", "true"), "--at-most: is 0"),
    "retries below 0": (("submit", "--retries", "-1", "--", "true"), "--retries: is -1"),
    "gpus below 0": (("submit", "--gpus", "-1", "--", "true"), "--gpus: is -1 (allowed: 0 to 64)"),
    "gpus of a type, too many": (("submit", "--gpus", "h100:65", "--", "true"), "allowed: 1 to 64 of a type"),
    "gpus that no node has": (("submit", "--gpus", "2", "--", "true"), "no node of lab has 2 GPUs (most: 1)"),
    "memory that no node has": (("submit", "--memory", "900GiB", "--", "true"), "no node of lab has 900 GiB of memory"),
    "gpus by name": (("submit", "--gpus", "all", "--", "true"), "no GPUs of type all"),
    "time 0": (("submit", "--time", "0", "--", "true"), "is not a valid duration"),
    "time of years": (("submit", "--time", "9000h", "--", "true"), "up to 8760h"),
    "time a word": (("submit", "--time", "soon", "--", "true"), "is not a valid duration"),
    "memory without unit": (("submit", "--memory", "8", "--", "true"), "--memory 20GiB"),
    "memory too little": (("submit", "--memory", "1KiB", "--", "true"), "--memory: is 1024"),
    "an odd name": (("submit", "--name", "a b", "--", "true"), "--name: is 'a b'"),
    "an empty word": (("submit", "--", ""), "COMMAND: begins with an empty word"),
    "a project that is a file": (("submit", "--project", "file", "--", "true"), "is not a folder"),
    "a project that is not there": (("submit", "--project", "/no/where", "--", "true"), "/no/where is not a folder"),
    "project and none": (("submit", "--project", ".", "--no-project", "--", "true"), "exclude each other"),
    "interrupt without wait": (("submit", "--on-interrupt", "cancel", "--", "true"), "requires --wait"),
    "no such cluster": (("submit", "--cluster", "two", "--", "true"), "the cluster two has no nodes"),
    "an id that is a word": (("jobs", "show", "last"), "'last' is not the id of a job"),
    "an id below 0": (("jobs", "show", "--", "-1"), "'-1' is not the id of a job"),
    "an id 0": (("jobs", "cancel", "0"), "'0' is not the id of a job"),
    "an id without end": (("jobs", "logs", "1" * 500), "is not the id of a job"),
    "an odd id": (("jobs", "wait", "1.", "2"), "'1.' is not the id of a job"),
    "an id in other digits": (("jobs", "wait", "\N{ARABIC-INDIC DIGIT ONE}"), "is not the id of a job"),
    "an unknown id": (("jobs", "show", "77"), "there is no such job"),
    "an unknown run": (("jobs", "logs", "77.1"), "there is no such job"),
    "cancel unknown": (("jobs", "cancel", "77"), "there is no such job"),
    "wait for unknown": (("jobs", "wait", "77"), "there is no such job"),
    "no id": (("jobs", "cancel"), "Missing argument 'IDS...'"),
    "two logs": (("jobs", "logs", "1", "2"), "unexpected extra argument"),
    "options of the list": (("jobs", "--cluster", "lab", "show", "1"), "--cluster goes after `show`"),
    "no such verb": (("jobs", "stop", "1"), "No such command 'stop'"),
    "jobs of no cluster": (("jobs", "--cluster", "two"), "the cluster two has no nodes"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused_in_words(name: str, held: Controller) -> None:
    argv, words = BAD[name]
    held.write("file", "")
    what, evidence, fix = held.refused(*argv)
    assert words in f"{what}\n{evidence}\n{fix}"
    assert evidence
    assert fix
    assert len(what) < 300
    assert held.jobs.orders() == []
    assert "submit" not in [asked[0] for asked in held.jobs.asked]
    assert "write_tree" not in [step for step, _ in held.world.engine.faults.passed]


NOTIFY = ("--notify", "sh -c 'echo")


def test_everything_wrong_is_told_at_once_and_nothing_is_copied(held: Controller) -> None:
    held.write("app.py", "def train(units): pass\n")
    (held.project / "passwords").symlink_to("/etc/passwd")
    with (held.project / "huge.bin").open("wb") as file:
        file.truncate(5 * 1024**3)
    what, evidence, fix = held.refused(
        "submit", "app:train", "-a", "unit=1", "--gpus", "65", "--retries", "101", *NOTIFY
    )
    assert what == "7 faults in the job; nothing was submitted"
    lines = evidence.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        *("--gpus", "--retries", "--notify", "huge.bin", "passwords", "app.py", "app.py")
    ]
    assert "is a link out of the project, to /etc/passwd" in lines[4]
    assert "has 5120 MiB, more than 256 MiB" in lines[3]
    assert "--no-project" in fix
    assert held.jobs.asked == []
    assert "list_nodes" not in [step for step, _ in held.world.engine.faults.passed], "not even the engine was asked"


def test_a_project_that_changes_meanwhile_is_not_submitted(held: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    file = held.write("train.py", "")

    def become_a_folder() -> None:
        file.unlink()
        file.mkdir()

    changes: dict[str, Callable[[], object]] = {
        "removed": file.unlink,
        "replaced": lambda: os.mkfifo(file),
        "replaced while it was copied": become_a_folder,
    }
    for words, change in changes.items():

        def check(*_: object, change: Callable[[], object] = change) -> list[str]:
            change()
            return ["train.py"]

        monkeypatch.setattr("gpuprov.stories.jobs.judge_order", check)
        what, evidence, _ = held.refused("submit", "--", "true")
        assert what == "the project changed while it was copied; nothing was submitted"
        assert evidence.startswith(f"{file}: {words}")
    assert (held.jobs.held(), held.jobs.orders()) == ([], [])


def test_of_very_many_faults_the_first_are_shown(held: Controller) -> None:
    for number in range(50):
        (held.project / f"link{number:02d}").symlink_to("/nowhere")
    what, evidence, _ = held.refused("submit", "--", "true")
    assert what == "50 faults in the project; nothing was submitted"
    assert len(evidence.splitlines()) == 21
    assert evidence.endswith("and 30 more")


@pytest.mark.parametrize("place", ["home", "."])
def test_a_home_is_no_project_unless_it_is_named(
    place: str, held: Controller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / place)
    what, _, fix = held.refused("submit", "--", "true")
    assert what == "the current folder is not a project; nothing was submitted"
    assert "gpuprov submit --no-project" in fix
    monkeypatch.chdir(tmp_path / "home")
    held("submit", "--project", ".", "--", "true")


def test_a_cluster_that_takes_no_jobs_says_what_it_lacks(held: Controller) -> None:
    nodes = held.world.engine.nodes
    mounts = nodes["c000"].mounts
    nodes["c000"].mounts = ()
    what, evidence, _ = held.refused("jobs")
    assert (what, evidence) == ("cluster lab has no shared folder for jobs", "c000 has no mount at /shared")
    nodes["c000"].mounts, nodes["c000"].status = mounts, "stopped"
    assert held.refused("submit", "--no-project", "--", "true")[2] == "start it: gpuprov start c000"
    nodes["c000"].status = "running"
    for said in ("/usr/bin/python3: No module named gpuwork", "runuser: user work does not exist"):
        held.jobs.say = lambda _command, said=said: ExecResult(exit_code=1, stdout="", stderr=f"{said}\n")
        what, evidence, _ = held.refused("jobs", code=4)
        assert (what, evidence) == ("the image of c000 does not support jobs", said)
    for node in nodes.values():
        node.labels["gpuprov.role"] = "plain"
    what, evidence, fix = held.refused("jobs")
    assert (what, evidence) == ("the nodes of cluster lab take no jobs", "their roles: plain")
    assert fix.endswith("gpuprov cluster up --role slurm")


def test_a_submission_of_which_nobody_heard_the_end(held: Controller) -> None:
    def late(_command: Command) -> ExecResult:
        raise TimedOut("it did not finish", evidence="no output", fix="gpuprov shell c000")

    held.jobs.say = late
    assert held.refused("submit", "--", "true", code=6)[2] == "see whether it was submitted: gpuprov jobs"
    assert held.jobs.held() == []


def test_errors_of_the_program_keep_their_parts(held: Controller) -> None:
    assert held.refused("jobs", "show", "7") == (
        "there is no such job", "7 is not in /shared/jobs", "gpuprov jobs",
    )  # fmt: skip
    held("submit", "--no-project", "--count", "3", "--", "true")
    assert held.refused("jobs", "logs", "1") == (
        "a log belongs to one run; name the run",
        "1 has runs 1.0 to 1.2",
        "gpuprov jobs logs 1.0",
    )
    held.jobs.slurm.said_by("squeue", "squeue: error: Unable to contact slurm controller", code=1)
    what, evidence, fix = held.refused("jobs", code=4)
    assert what == "squeue failed"
    assert "Unable to contact" in evidence
    assert fix == "gpuprov shell c000, and there: scontrol ping; sinfo"
    held.jobs.slurm.obey("squeue")
    held.jobs.slurm.said_by("sbatch", "sbatch: error: invalid partition", code=1)
    assert held.refused("submit", "--no-project", "--", "true", code=4)[0] == "sbatch failed"
    (held.jobs.folder / "jobs").rename(held.jobs.folder / "kept")
    (held.jobs.folder / "jobs").write_text("")
    assert "the shared folder does not exist" in held.refused("submit", "--no-project", "--", "true", code=3)[0]


def test_what_is_odd_about_numbers_is_said(held: Controller) -> None:
    held("submit", "--no-project", "--count", "2", "--", "true")
    assert "all 2 runs are the same: {n}, the number of a run, is not used" in held.said.err
    held("submit", "--no-project", "--", "echo", "{n}")
    assert "{n} stays as it is" in held.said.err
    held("submit", "--no-project", "--count", "2", "--", "echo", "{n}")
    assert "warning" not in held.said.err


def test_a_disk_that_is_nearly_full_is_told_of_and_nothing_fails_for_it(held: Controller) -> None:
    quiet = ("submit", "--no-project", "--gpus", "0", "--", "true")
    assert held(*quiet) == "1\n"
    assert "full" not in held.said.err
    held.world.engine.free_bytes = 10 << 30
    assert held(*quiet) == "2\n"
    told = "warning: the storage of lxd is 90 % full: 10.0 GiB of 100.0 GiB free; see what uses it: gpuprov doctor"
    assert told in held.said.err
    held("cluster", "status")
    assert told in held.said.err
    assert "limits of c[000-001]: 2048 processes, 30.4 GiB of memory, all CPUs" in held.said.out


@pytest.mark.slow
def test_results_are_pulled_once_and_removed_after_a_question(controller: Controller, tmp_path: Path) -> None:
    controller.write("train.py", "open('out.txt', 'w').write('42'); print('trained')")
    controller("submit", "--gpus", "0", "--", "python3", "train.py")
    assert "to copy them here: gpuprov jobs pull 1" in controller.said.err
    controller("submit", "--gpus", "0", "--count", "2", "--no-project", "--", "echo", "{n}")
    controller("jobs", "wait", "1", "2")
    pulled = controller.document("jobs", "pull", "1", str(tmp_path / "one"))
    assert (pulled["jobs"], pulled["links"]) == (["1"], 1)
    assert (tmp_path / "one/work/out.txt").read_text() == "42"
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["done.json", "log.txt", "work"]
    assert "it exists" in controller.refused("jobs", "pull", "1", str(tmp_path / "one"))[1]
    controller("jobs", "pull", "2.1", str(tmp_path / "second"))
    assert (tmp_path / "second/log.txt").read_text() == "1\n"
    assert "copied 2 runs" in controller("jobs", "pull", "2")
    assert (controller.project / "job-2/0/log.txt").read_text() == "0\n"
    assert controller("jobs", "pull", "2").endswith("0 files, 0 bytes; 2 there before\n")
    _, evidence, fix = controller.refused("jobs", "rm", "2")
    assert "2 (echo): 2 runs, everything in" in evidence
    assert fix == "gpuprov jobs rm 2 --yes"
    assert controller("jobs", "rm", "2", "--yes") == "removed: 2\n"
    assert "no such job" in controller.refused("jobs", "rm", "2")[0]


def test_what_has_not_ended_is_not_pulled_and_says_why_it_waits(held: Controller) -> None:
    held("submit", "--no-project", "--", "true")
    assert held.refused("jobs", "pull", "1")[::2] == (
        "job 1 has not ended; nothing was copied",
        "wait for it: gpuprov jobs wait 1",
    )
    assert held("jobs", "logs", "1") == ""
    assert "1 waits: " in held.said.err
    assert list(held.project.iterdir()) == []


def test_an_id_alone_is_shown_and_jobs_are_chosen(held: Controller) -> None:
    for count in ("1", "2"):
        held("submit", "--no-project", "--count", count, "--", "echo", "{n}")
    assert held("jobs", "2.1") == held("jobs", "show", "2.1")
    assert [job["id"] for job in held.document("jobs", "--last", "1")["jobs"]] == ["2.0", "2.1"]
    assert held.document("jobs", "--state", "done", "--state", "lost")["jobs"] == []


def test_all_that_is_wrong_with_the_options_is_told_at_once(held: Controller) -> None:
    wrong = ("--time", "soon", "--memory", "lots", "--count", "0", "--on-interrupt", "cancel", "-a", "x=1")
    what, evidence, _ = held.refused("submit", *wrong, "--no-project", "--", "true")
    assert what == "5 things are wrong with the command; nothing was submitted"
    for word in ("--time", "lots", "--count", "--on-interrupt requires --wait", "-a is for functions"):
        assert word in evidence


def test_the_log_of_a_job_that_never_began_says_so(held: Controller) -> None:
    held("submit", "--no-project", "--", "true")
    held("jobs", "cancel", "1")
    assert held("jobs", "logs", "1") == ""
    assert "1 printed nothing: cancelled before it began" in held.said.err


@pytest.mark.parametrize("more", [(), ("--yes",)])
def test_of_jobs_of_which_one_is_not_there_none_is_removed(held: Controller, more: tuple[str, ...]) -> None:
    held("submit", "--no-project", "--", "true")
    held("jobs", "cancel", "1")
    what, _, _ = held.refused("jobs", "rm", "1", "99", *more)
    assert what == "there is no such job; no job was removed"
    assert [job["id"] for job in held.document("jobs")["jobs"]] == ["1"]


@pytest.mark.parametrize(
    ("given", "gpus", "type_", "gres"),
    [("h100:1", 1, "h100", "gpu:h100:1"), ("h100", 1, "h100", "gpu:h100:1"), ("1", 1, None, "gpu:1")],
)
def test_gpus_are_asked_for_by_their_type(
    given: str, gpus: int, type_: str | None, gres: str, held: Controller
) -> None:
    held("submit", "--no-project", "--gpus", given, "--", "true")
    (order,) = held.jobs.orders()
    assert (order["gpus"], order.get("gpu_type")) == (gpus, type_)
    assert f"--gres={gres}" in held.jobs.slurm.typed("sbatch")[0]
    assert f"GPUs      {gres.removeprefix('gpu:')}\n" in held("jobs", "show", "1")


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        (
            ("--gpus", "b200"),
            "lab has no GPUs of type b200; nothing was submitted",
            "--gpus h100:1, or any: --gpus 1",
        ),
        (("--gpus", "h100:9"), "no node of lab has 9 GPUs of type h100 (most: 1)", "ask for less: --gpus h100:1"),
        (("--gpus", "h100:"), "--gpus 'h100:' is no number of GPUs", "--gpus 1"),
        (("--gpus", "h100:0"), "a fault in the job; nothing was submitted", "gpuprov submit --help"),
        (("--gpus", "h100", "--shards", "1"), "a fault in the job; nothing was submitted", "gpuprov submit --help"),
        (("--qos", "nope"), "lab has no QOS nope; nothing was submitted", "omit --qos; or set accounting: on and"),
        (("--after", "99"), "the job would never begin; nothing was submitted", "gpuprov jobs"),
        (("--project", "/nope"), "a fault in the job", "cd into the project, name its folder with --project"),
    ],
)
def test_what_the_cluster_lacks_is_refused_with_what_to_type(
    options: tuple[str, ...], what: str, fix: str, held: Controller
) -> None:
    bare = () if "--project" in options else ("--no-project",)
    refused = held.refused("submit", *options, *bare, "--", "true")
    assert refused[0].startswith(what)
    assert refused[2].startswith(fix)
    assert "show 99" not in refused[2]
    assert held.jobs.orders() == []
    assert held.jobs.slurm.typed("sbatch") == []


def test_ctrl_c_in_a_wait_says_that_the_jobs_go_on(held: Controller) -> None:
    for _ in range(2):
        held("submit", "--no-project", "--", "true")

    def interrupt(command: Command) -> ExecResult:
        held.jobs.say = None
        if "wait" in command.argv:
            raise KeyboardInterrupt
        result = held.jobs(command)
        held.jobs.say = interrupt
        return result

    held.jobs.say = interrupt
    held("jobs", "wait", "1", "2", code=130)
    told = "1, 2 are waiting; to end it: gpuprov jobs cancel 1 2; to look: gpuprov jobs show 1 2"
    assert told in held.said.err
    held("jobs", "cancel", "1")
    held.jobs.say = interrupt
    held("jobs", "wait", "1", code=130)
    assert "1 has ended: gpuprov jobs show 1\n" in held.said.err


def test_ctrl_c_in_a_log_says_that_the_job_goes_on(held: Controller) -> None:
    held("submit", "--no-project", "--", "true")
    asked = []

    def interrupt(command: Command) -> ExecResult:
        asked.append("logs" in command.argv)
        held.jobs.say = None
        if sum(asked) > 1:
            raise KeyboardInterrupt
        result = held.jobs(command)
        held.jobs.say = interrupt
        return result

    held.jobs.say = interrupt
    held("jobs", "logs", "--follow", "1", code=130)
    assert "1 waits: Resources (no node has enough free now)" in held.said.err
    assert "1 is waiting; to end it: gpuprov jobs cancel 1; to look: gpuprov jobs show 1" in held.said.err


def test_a_job_that_runs_and_has_printed_nothing_says_so(held: Controller) -> None:
    held("submit", "--no-project", "--", "true")
    (task,) = held.jobs.slurm.listed()
    (held.jobs.slurm.tasks / task).write_text("RUNNING")
    assert held("jobs", "logs", "1") == ""
    assert "1 runs, and has printed nothing yet" in held.said.err
    log = held.jobs.folder / "jobs/1/runs/0/log.txt"
    log.parent.mkdir(parents=True)
    log.write_text("begun\n")
    assert held("jobs", "logs", "1") == "begun\n"
    assert "nothing yet" not in held.said.err


def test_why_jobs_wait_is_said_once_for_each_reason(held: Controller) -> None:
    for _ in range(2):
        held("submit", "--no-project", "--count", "2", "--", "echo", "{n}")
    jobs = read(Jobs, held.document("jobs")).jobs
    assert name_waits(jobs) == ["1, 2 wait: Resources (no node has enough free now)"]
    assert "  reason    Resources (no node has enough free now)\n" in held("jobs", "show", "1.0")
    one = [changed(job, reason=f"Reason{number}") for number, job in enumerate(jobs)]
    assert name_waits(one)[0] == "1 waits: Reason0"
    assert name_waits([changed(job, state="running") for job in jobs]) == []
