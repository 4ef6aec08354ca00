from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov import __version__
from gpuprov.cli.main import main
from gpuprov.core.errors import EngineError, GpuprovError, HostNotReady, PlaybookError, TimedOut, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuprov.cli.session import Session

    AddVerb = Callable[[Callable[..., Any]], None]

ROOT = Path(__file__).parents[3]


def only_log(logs: Path) -> str:
    (path,) = logs.glob("*.log")
    return path.read_text()


def last_log(logs: Path) -> str:
    return max(logs.glob("*.log")).read_text()


def test_version(capsys: pytest.CaptureFixture[str], logs: Path) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"gpuprov {__version__}\n", "")
    assert not logs.exists()


def test_a_verb_shows_its_result_on_stdout_and_its_progress_on_stderr(
    verb: AddVerb, capsys: pytest.CaptureFixture[str], logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(session: Session) -> None:
        with session.reporter.phase("first"):
            session.reporter.node("c000", "starting")
        with session.reporter.phase("second"):
            session.reporter.note("as before")
        session.show({"nodes": ["c000"]}, "c000")

    verb(command)
    assert main(["try"]) == 0
    assert capsys.readouterr() == ("c000\n", "  as before\n"), "what took a moment is not worth a line"
    for module in ("progress", "session"):
        monkeypatch.setattr(f"gpuprov.cli.{module}.QUICK_S", 0.0)
    assert main(["try"]) == 0
    out, err = capsys.readouterr()
    assert out == "c000\n"
    assert re.search(r"first done \(\d+\.\d s\)", err)
    assert "c000" not in err, "steps of nodes are for -v"
    assert re.search(r"^durations: first \d+\.\d s, second \d+\.\d s$", err, re.MULTILINE)
    log = last_log(logs)
    assert "c000: starting" in log
    assert log.endswith("exit code 0\n")


@pytest.mark.parametrize("arguments", [["--json", "try"], ["try", "--json"]])
def test_json_is_one_versioned_document(
    verb: AddVerb, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    def command(session: Session) -> int:
        with session.reporter.phase("look"):
            session.show({"nodes": ["c000"]}, "not this")
        return 3

    verb(command)
    assert main(arguments) == 3
    document = json.loads(capsys.readouterr().out)
    assert document == {"version": 1, "nodes": ["c000"], "seconds": {}}


@pytest.mark.parametrize("arguments", [["-q", "try"], ["try", "--quiet"]])
def test_quiet_leaves_result_and_warnings(
    verb: AddVerb, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    def command(session: Session) -> None:
        with session.reporter.phase("look"):
            session.reporter.note("by the way")
            session.reporter.warn("GPUs are SIMULATED")
        session.show({}, "result")

    verb(command)
    assert main(arguments) == 0
    assert capsys.readouterr() == ("result\n", "warning: GPUs are SIMULATED\n")


def test_verbose_says_every_step_of_every_node(verb: AddVerb, capsys: pytest.CaptureFixture[str]) -> None:
    verb(lambda session: session.reporter.node("c000", "starting"))
    assert main(["try", "-v"]) == 0
    assert "c000: starting" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "code"),
    [(GpuprovError, 1), (UsageError, 2), (HostNotReady, 3), (EngineError, 4), (PlaybookError, 5), (TimedOut, 6)],
)
def test_an_error_has_three_parts_and_the_documented_exit_code(
    verb: AddVerb, capsys: pytest.CaptureFixture[str], logs: Path, kind: type[GpuprovError], code: int
) -> None:
    def command(_: Session) -> None:
        raise kind("it broke", evidence="the daemon said no", fix="gpuprov doctor")

    verb(command)
    assert main(["try"]) == code
    assert capsys.readouterr() == ("", "error: it broke\nevidence: the daemon said no\nfix: gpuprov doctor\n")
    assert "Traceback" in only_log(logs)


def test_an_error_with_json_is_a_document_too(verb: AddVerb, capsys: pytest.CaptureFixture[str]) -> None:
    def command(_: Session) -> None:
        raise EngineError("it broke", evidence="e", fix="f")

    verb(command)
    assert main(["try", "--json"]) == 4
    error = json.loads(capsys.readouterr().out)["error"]
    assert error == {"what": "it broke", "evidence": "e", "fix": "f", "exit_code": 4}


def test_an_unexpected_error_is_one_line_and_a_log_with_the_traceback(
    verb: AddVerb, capsys: pytest.CaptureFixture[str], logs: Path
) -> None:
    def command(_: Session) -> None:
        raise RuntimeError("nobody\nforesaw this")

    verb(command)
    assert main(["try"]) == 70
    (path,) = logs.glob("*.log")
    assert capsys.readouterr().err == f"error: unexpected RuntimeError: nobody\ntraceback: {path}\n"
    assert "Traceback (most recent call last)" in path.read_text()


def test_no_log_is_no_reason_to_fail(verb: AddVerb, capsys: pytest.CaptureFixture[str], logs: Path) -> None:
    logs.write_text("a file is in the way")
    verb(lambda session: session.reporter.note("hello"))
    assert main(["try"]) == 0
    assert "hello" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["nosuch"], "No such command 'nosuch'"),
        (["submitt"], "No such command 'submitt'. Did you mean 'submit'?"),
        (["cluster", "dwn"], "No such command 'dwn'. Did you mean 'down'?"),
        (["jobs", "shw"], "No such command 'shw'. Did you mean 'show'?"),
        (["doctor", "--bogus"], "No such option '--bogus'"),
        (["completion", "tcsh"], "Invalid value"),
        (["jobs", "logs"], "Missing argument"),
    ],
)
def test_bad_usage_has_three_parts_and_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], what: str
) -> None:
    assert main([*arguments, "--json"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"error: {what}")
    assert "fix: gpuprov" in err
    error = json.loads(out)["error"]
    assert what in error["what"]
    assert error["fix"].endswith("--help")


@pytest.mark.parametrize(("arguments", "section"), [([], "Clusters:"), (["host"], "Verbs:")])
def test_no_verb_shows_the_help_and_is_bad_usage(
    capsys: pytest.CaptureFixture[str], arguments: list[str], section: str
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert section in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("where", ["anywhere", "while an object is finalised"])
def test_an_interrupt_lets_the_block_undo_and_exits_with_130(
    tmp_path: Path, number: signal.Signals, where: str
) -> None:
    code = """
import sys, time, click
from pathlib import Path
from types import ModuleType
from gpuprov.cli import main, session, verbs
class Dying:
    def __del__(self):
        print("begun", flush=True)
        time.sleep(60)
@click.command()
def command():
    try:
        if sys.argv[-1] == "anywhere":
            print("begun", flush=True)
        else:
            Dying()
        time.sleep(60)
    finally:
        print("undone", flush=True)
module = ModuleType("verb")
module.command = command
sys.modules["verb"] = module
verbs.VERBS["try"] = verbs.Verb("verb", "")
folder, sys.argv = sys.argv[1], ["gpuprov", "try", sys.argv[2]]
command.params.append(click.Argument(["where"], expose_value=False))
session.log_folder = lambda *_, **__: Path(folder)
sys.exit(main.main())
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path, where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.1)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "undone\n", "\ninterrupted\n")
