"""What a user types may be of any length; what is said about it may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from gpuprov.cli.main import main, root
from gpuprov.cli.verbs import VERBS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Typed

LONG = "x" * 20_000
BEGINS = {"image build": {"--package"}}  # is a package's name, with which a build would begin
MOST = 12_000  # of all that is said about one of them, usage and fix included


def find_command(path: str) -> click.Command:
    command: click.Command = root()
    for word in path.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found
        command = found
    return command


def ways(path: str) -> list[list[str]]:
    """A long word at every place of a verb where one can be typed."""
    values = [
        param
        for param in find_command(path).params
        if isinstance(param, click.Option) and not param.is_flag and not param.count
    ]
    words = [*path.split(), *(["c000"] if path in ("exec", "ssh", "shell") else [])]
    typed = [[*words, LONG], [*words, f"--{LONG}"], [*words, "7000", LONG, LONG]]
    names = {option.opts[-1] for option in values} - BEGINS.get(path, set())
    if "--mount" in names:
        typed += [[*words, "c009", "--mount", f"/{LONG}:/data"], [*words, "c009", "--mount", f"/tmp:/{LONG}"]]
    return [*typed, *([*words, name, LONG] for name in sorted(names))]


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path, verb in VERBS.items() if verb.module])
def test_it_is_echoed_in_part(path: str, typed: Typed, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in ways(path):
        for form in ((), ("--json",)):
            capsys.readouterr()
            code = main([*form, *argv], host=typed.world.host)
            said = capsys.readouterr()
            shown = [word if word != LONG else "LONG" for word in argv]
            assert code not in (70, 130), (shown, said.err[:500])
            assert len(said.out) + len(said.err) < MOST, (shown, len(said.out), len(said.err))
    assert all(log.stat().st_size < MOST for log in logs.glob("*.log"))


def test_the_log_of_a_run_holds_its_command_in_part(
    typed: Typed, logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gpuprov", "start", LONG])
    assert main(["start", LONG], host=typed.world.host) == 2
    (log,) = logs.glob("*.log")
    assert "start xxx" in log.read_text()
    assert log.stat().st_size < MOST
    capsys.readouterr()
