"""The examples of the pages on grids are typed, and their tables and numbers are those of the program."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gpuwork.grid import cli
from gpuwork.grid.arguments import build_parser

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "grids.md").read_text()
INTERNALS = (DOCS / "grids-internals.md").read_text()
STAMP = "2026-11-22-16-40-12"
FILE = re.compile(r"(?:^|With this )`([a-z/]+\.(?:py|yaml))`:\n\n((?:    .*\n|\n)+)", re.MULTILINE)
TYPED = re.compile(r"^    \$ python3 -m gpuwork\.grid (.+)\n((?:    [^$\n].*\n)+)", re.MULTILINE)


def sections() -> list[tuple[str, str]]:
    """Parts of the page that have a project of their own: they begin where its first file is shown."""
    first, second, third = (PAGE.index(mark) for mark in ("`src/params.py`:", "With this `src/", "`grid.yaml`:\n"))
    return [("product", PAGE[first:second]), ("faults", PAGE[second:third]), ("yaml", PAGE[third:])]


def as_shown(text: str, project: Path) -> str:
    """What differs from one call to the next as the page has it."""
    text = re.sub(r"\d{4}(-\d\d){5}", STAMP, text.replace(str(project), "PROJECT"))
    return re.sub(r"done in \d+\.\d s", "done in 0.2 s", text)


@pytest.mark.slow
@pytest.mark.usefixtures("in_bare_python")
@pytest.mark.parametrize(("name", "part"), sections(), ids=[name for name, _ in sections()])
def test_the_examples_are_right(
    name: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    files = {path: re.sub(r"^    ", "", text, flags=re.MULTILINE) for path, text in FILE.findall(part)}
    if name == "faults":
        files["src/job.py"] = "def main(param2val): pass\n"
    for path, text in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    monkeypatch.chdir(project)
    commands = TYPED.findall(part)
    assert len(commands) == {"product": 4, "faults": 1, "yaml": 1}[name]
    for command, shown in commands:
        cli.main(shlex.split(command))
        out, err = capsys.readouterr()
        expected = re.escape(re.sub(r"^    ", "", shown, flags=re.MULTILINE)).replace(r"\.\.\.", r"[\s\S]*")
        assert re.fullmatch(expected, as_shown(err + out, project)), f"{command}:\n{err}{out}"


def test_the_verbs_and_options_are_those_of_the_program() -> None:
    verbs = build_parser()[1].choices
    table = re.findall(r"^\| `([a-z]+) [A-Z N]+` \| [^|]+ \|(.*)\|$", INTERNALS, re.MULTILINE)
    documented = {verb: set(re.findall(r"--[a-z-]+", options)) for verb, options in table}
    there = {
        verb: {option for action in parser._actions for option in action.option_strings if len(option) > 2} - {"--help"}
        for verb, parser in verbs.items()
    }
    assert documented == there
    explained = re.findall(r"^\| `(--[a-z-]+)", INTERNALS, re.MULTILINE)
    assert sorted(explained) == sorted(set().union(*there.values()))
