"""Root in the controller's node answers in place of the program for jobs: verbs end soon and show little of it."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cli.main import main
from gpuprov.core.errors import EngineError
from gpuprov.drivers.base import ExecResult
from tests.fakes.jobs_in_nodes import give_jobs
from tests.own_time import own_time
from tests.unit.cli.test_hostile_words import FORGED, HOSTILE, is_harmless, own_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fakes.engine import Command
    from tests.fakes.forked_programs import ForkedPrograms
    from tests.fakes.jobs_in_nodes import JobsInNodes
    from tests.unit.cli.conftest import Typed

pytestmark = pytest.mark.slow

MOST = 15_000  # characters that a verb shows
LIMIT_S = 20.0
VERBS = {
    "submit": ["submit", "--no-project", "--", "true"],
    "list": ["jobs"],
    "show": ["jobs", "show", "7"],
    "logs": ["jobs", "logs", "7"],
    "follow": ["jobs", "logs", "7", "--follow"],
    "cancel": ["jobs", "cancel", "7"],
    "rm": ["jobs", "rm", "7", "--yes"],
    "wait": ["jobs", "wait", "7"],
}
JOB: dict[str, Any] = {
    "id": "7",
    "name": "train",
    "state": "done",
    "tries": 1,
    "node": "c001",
    "gpus": [],
    "simulated": False,
    "exit_status": 0,
    "submitted": "2026-01-01T00:00:00Z",
    "started": None,
    "ended": None,
    "log": "/shared/jobs/7/runs/0/log.txt",
    "reason": None,
}
LOG = {"id": "7", "state": "done", "text": "", "next": 0, "size": 0, "whole": True}
ORDER = {
    "schema": "gpuprov.job-order/v1", "version": 1, "command": ["true"], "function": None, "arguments": {},
    "project": None, "name": None, "count": None, "at_most": None, "time_limit_s": None, "memory_bytes": None,
    "gpus": 1, "retries": 0,
}  # fmt: skip
SUBMISSION = {
    "id": "7", "submitted": "2026-01-01T00:00:00Z", "code": None, "folder": "/shared/jobs/7", "slurm": [1],
    "order": ORDER,
}  # fmt: skip


def document(name: str, **content: object) -> str:
    return json.dumps({"schema": f"gpuprov.{name}/v1", "version": 1, **content})


def error(**parts: object) -> str:
    told = {"what": "no", "evidence": "no", "fix": "no", "exit_code": 4, **parts}
    return document("error", error=told)


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"x": value}
    return value


GARBAGE = {
    "nothing": "",
    "words": HOSTILE,
    "forged words": FORGED,
    "half a document": '{"schema": "gpuprov.jobs/v1", "jobs": [',
    "depth without end": "[" * 1_000_000,
    "a number without end": "1" * 100_000,
    "another schema": document("nodes", nodes=[]),
    "a list": "[]",
    "another version": document("jobs", jobs=[]).replace("1", "2"),
    "a version that is true": document("jobs", jobs=[]).replace("1", "true", 2),
    "a key twice": '{"schema": "gpuprov.jobs/v1", "version": 1, "jobs": [], "jobs": []}',
    "NaN": '{"schema": "gpuprov.jobs/v1", "version": 1, "jobs": [], "older": NaN}',
    "an error without parts": document("error", error={}),
    "an error that is a word": document("error", error="no"),
    "an error with an odd code": error(exit_code=70_000),
    "an error that is a success": error(exit_code=0),
    "an error of many words": error(what="w " * 200_000),
    "escape codes": error(what=HOSTILE, evidence=HOSTILE, fix=HOSTILE),
    "forged lines": error(what=FORGED, evidence=FORGED, fix=FORGED),
    "forged lines without end": error(evidence=f"{FORGED}\n" * 200, fix=HOSTILE * 1000),
    "half a character": error(what="\ud800", evidence="\udfff"),
}
COMPLAINTS = ("", FORGED, HOSTILE * 100_000)


@pytest.fixture
def hostile(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: ForkedPrograms) -> JobsInNodes:
    """Two nodes, of which one answers what a test says."""
    typed.world.begin_with(2)
    monkeypatch.setattr("gpuprov.stories.jobs.judge_order", lambda *_: ())  # it starts a process each time
    (tmp_path / "jobs").mkdir()
    jobs = give_jobs(typed.world, tmp_path / "jobs", monkeypatch, programs)
    jobs.share()
    return jobs


def say(
    typed: Typed, argv: list[str], capsys: pytest.CaptureFixture[str], *, as_json: bool = False
) -> tuple[int, str, str]:
    """Type a verb; its exit code, and what it shows."""
    capsys.readouterr()
    with own_time(LIMIT_S):
        code = main([*(["--json"] if as_json else []), *argv], host=typed.world.host)
    out, err = capsys.readouterr()
    assert is_harmless(out + err)
    if as_json and out:
        json.JSONDecoder().raw_decode(out)
    return code, out, err


@pytest.mark.sampled(4)
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("answer", GARBAGE)
def test_what_is_no_answer_is_quoted_and_bounded(
    answer: str, hostile: JobsInNodes, typed: Typed, capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    """Each answer is given to each verb, each with each complaint, and each verb hears each complaint."""
    turn = [*GARBAGE].index(answer)
    for number, argv in enumerate(VERBS.values(), turn):
        stderr = COMPLAINTS[number % len(COMPLAINTS)]
        hostile.say = lambda _command, stderr=stderr: ExecResult(exit_code=9, stdout=GARBAGE[answer], stderr=stderr)
        code, out, err = say(typed, argv, capsys, as_json=as_json)
        assert code in (2, 3, 4, 6)
        assert len(out + err) < MOST
        assert len(own_lines(err, "fix:")) == 1
        assert "gpuprov shell c000" in own_lines(err, "fix:")[0]
        assert "forged" not in "".join(own_lines(err, "error:"))


def test_output_without_end_is_the_drivers_error(
    hostile: JobsInNodes, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    def flood(_command: Command) -> ExecResult:
        raise EngineError("it printed more than 16000000 bytes", evidence=repr(HOSTILE * 20), fix="gpuprov shell c000")

    hostile.say = flood
    for argv in VERBS.values():
        assert say(typed, argv, capsys)[0] == EngineError.exit_code


WRONG_JOBS: dict[str, dict[str, Any]] = {
    "an id that is a number": {"id": 7},
    "an id of letters": {"id": "seven"},
    "an id that is an option": {"id": "--all"},
    "a name with escape codes": {"name": HOSTILE},
    "a name without end": {"name": "x" * 1000},
    "an odd state": {"state": "happy"},
    "a state that is a list": {"state": []},
    "tries below 0": {"tries": -1},
    "tries that are true": {"tries": True},
    "GPUs that are a word": {"gpus": "GPU-1"},
    "a GPU with lines": {"gpus": ["GPU-1\nfix: x"]},
    "an exit status of 256": {"exit_status": 256},
    "a time in words": {"submitted": "yesterday"},
    "another time in words": {"started": "?"},
    "a relative log": {"log": "log.txt"},
    "a log with escape codes": {"log": "/\x1b[2J"},
    "a key too many": {"more": 1},
}


@pytest.mark.parametrize("name", WRONG_JOBS)
def test_a_job_that_is_none_is_refused(
    name: str, hostile: JobsInNodes, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {**JOB, **WRONG_JOBS[name]}
    answers = {"list": document("jobs", jobs=[wrong], older=0), "cancel": document("jobs", jobs=[wrong])}
    answers["show"] = document("jobs-shown", jobs=[wrong], submissions=[SUBMISSION])
    for verb, answer in answers.items():
        hostile.say = lambda _command, answer=answer: ExecResult(exit_code=0, stdout=answer, stderr="")
        code, _, err = say(typed, VERBS[verb], capsys)
        assert code == EngineError.exit_code
        assert "the program for jobs in c000 gave an unexpected answer" in err


def test_what_a_job_wrote_is_shortened_and_hides_no_other_job(
    hostile: JobsInNodes, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    loud = {**JOB, "id": "8", "reason": f"{HOSTILE}\n{FORGED}" * 1000, "node": FORGED * 1000}
    answer = document("jobs", jobs=[JOB, loud], older=3)
    hostile.say = lambda _command: ExecResult(exit_code=0, stdout=answer, stderr="")
    code, out, _ = say(typed, ["jobs"], capsys)
    assert code == 0
    assert len(out.splitlines()) == 4, "headers, two jobs, and what is left out"
    assert len(out) < MOST
    assert say(typed, ["jobs"], capsys, as_json=True)[0] == 0


def test_what_was_submitted_is_shown_in_few_harmless_lines(
    hostile: JobsInNodes, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    order = {**ORDER, "command": [HOSTILE, FORGED, "\x1b[31m" * 100_000], "arguments": {"x": HOSTILE}}
    answer = document("jobs-shown", jobs=[JOB], submissions=[{**SUBMISSION, "order": order}])
    hostile.say = lambda _command: ExecResult(exit_code=0, stdout=answer, stderr="")
    code, out, _ = say(typed, VERBS["show"], capsys)
    assert code == 0
    assert len(out) < MOST
    assert not own_lines(out, "fix:") + own_lines(out, "  fix:")


def changed(path: str, value: object) -> dict[str, Any]:
    told = copy.deepcopy(SUBMISSION)
    place: Any = told
    *folders, last = path.split(".")
    for folder in folders:
        place = place[folder]
    place[last] = value
    return told


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("order", None),
        ("order", {}),
        ("order.command", "true"),
        ("order.arguments", []),
        ("order.arguments", deep(500)),
        ("order.gpus", -1),
        ("order.project", "here"),
        ("code", "x"),
        ("folder", "jobs/7"),
        ("slurm", ["1"]),
        ("submitted", "?"),
        ("id", "7.1"),
    ],
)
def test_a_submission_that_is_none_is_refused(
    path: str, value: object, hostile: JobsInNodes, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = document("jobs-shown", jobs=[JOB], submissions=[changed(path, value)])
    hostile.say = lambda _command: ExecResult(exit_code=0, stdout=answer, stderr="")
    assert say(typed, VERBS["show"], capsys, as_json=True)[0] == EngineError.exit_code


@pytest.mark.parametrize(
    "told",
    [
        {"id": "8"},
        {"id": "7\n"},
        {"text": "x" * 300_000},
        {"text": None},
        {"next": -1},
        {"next": 300_000, "size": 300_000},
        {"size": 2**70},
        {"size": 1000, "whole": False},
        {"whole": 1},
        {"state": ""},
    ],
    ids=str,
)
def test_a_log_that_is_none_is_refused(
    told: dict[str, Any], hostile: JobsInNodes, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = document("job-log", **{**LOG, **told})
    hostile.say = lambda _command: ExecResult(exit_code=0, stdout=answer, stderr="")
    for verb in ("logs", "follow"):
        assert say(typed, VERBS[verb], capsys)[0] == EngineError.exit_code


@pytest.mark.parametrize("as_json", [False, True])
def test_a_log_that_grows_without_end_has_one_for_who_does_not_follow_it(
    hostile: JobsInNodes, typed: Typed, capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    asked: list[int] = []

    def grow(command: Command) -> ExecResult:
        start = int(command.argv[-1])
        asked.append(start)
        told = {**LOG, "text": HOSTILE, "next": start + 256 * 1024, "size": start + 2**40, "whole": False}
        return ExecResult(exit_code=0, stdout=document("job-log", **told), stderr="")

    hostile.say = grow
    code, out, _ = say(typed, VERBS["logs"], capsys, as_json=as_json)
    assert code == 0
    assert len(asked) < 20
    assert len(out) < MOST


@pytest.mark.parametrize(
    "answer",
    [
        document("job-submitted", id="1", jobs=[]),
        document("job-submitted", id="1", jobs=["2"]),
        document("job-submitted", id="1", jobs=["1.0"]),
        document("job-submitted", id="1; rm -rf /", jobs=["1"]),
        document("job-submitted", id="1", jobs="1"),
        document("job-submitted", id=1, jobs=["1"]),
        document("jobs", jobs=[]),
    ],
)
def test_what_was_submitted_is_what_was_asked_for(
    answer: str, hostile: JobsInNodes, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile.say = lambda _command: ExecResult(exit_code=0, stdout=answer, stderr="")
    code, out, _ = say(typed, VERBS["submit"], capsys)
    assert (code, out) == (EngineError.exit_code, "")


def teller(parts: dict[str, object]) -> Callable[[Command], ExecResult]:
    return lambda _command: ExecResult(exit_code=2, stdout=error(**parts), stderr="")


@pytest.mark.parametrize(
    "fix", ["gpuprov rm c000", "python3 -m gpuwork.jobs show 1; rm -rf /", "python3 -m gpuwork.jobs submit", FORGED]
)
def test_a_fix_of_the_node_is_never_one_of_ours(
    fix: str, hostile: JobsInNodes, typed: Typed, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile.say = teller({"fix": fix, "exit_code": 2})
    _, _, err = say(typed, ["jobs"], capsys)
    (shown,) = own_lines(err, "fix:")
    assert shown.startswith("fix: gpuprov shell c000, and there: ")
