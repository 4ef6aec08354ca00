"""What the READMEs of the examples say is so: commands are understood, files are there, versions are the specs'."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from gpuprov.planes.registry import load_draft
from tests.suggestions import parse

ROOT = Path(__file__).parents[2]
READMES = sorted((ROOT / "examples").glob("*/README.md"))
SPECS = sorted((ROOT / "examples").glob("*/cluster.yaml"))
TYPED = re.compile(r"^    (?:\$ )?(?:[A-Z_]+=\S+ )*gpuprov ((?:.*\\\n)*.*)$", re.MULTILINE)


def typed(page: str) -> list[list[str]]:
    """The commands of ours on a page, without the program's name and what only the shell reads."""
    found = []
    for line in TYPED.findall(page):
        words = shlex.split(line.replace("\\\n", " "))
        end = min((at for at, word in enumerate(words) if word[0] in "<>|&"), default=len(words))
        found.append(words[:end])
    return found


@pytest.mark.parametrize("readme", READMES, ids=[path.parent.name for path in READMES])
def test_its_commands_are_understood(readme: Path) -> None:
    commands = typed(readme.read_text())
    assert commands
    for argv in commands:
        parse(argv)


@pytest.mark.parametrize("readme", READMES, ids=[path.parent.name for path in READMES])
def test_the_files_that_it_names_are_there(readme: Path) -> None:
    page = readme.read_text()
    named = set(re.findall(r"(?:examples|tests)/[\w/]+\w(?:\.\w+)?", page))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", SPECS, ids=[path.parent.name for path in SPECS])
def test_its_spec_is_one(path: Path) -> None:
    assert load_draft(path).spec.share is True


def test_the_page_of_tools_has_the_versions_of_the_specs() -> None:
    page = (ROOT / "docs/tools.md").read_text()
    shown = {
        tool: yaml.safe_load(python) for python, tool in re.findall(r"python: (\[.*?\])`.*\(\.\./(.*?)/README", page)
    }
    there = {f"examples/{path.parent.name}": yaml.safe_load(path.read_text())["image"]["python"] for path in SPECS
             if "python" in yaml.safe_load(path.read_text())["image"]}  # fmt: skip
    assert len(there) == 3
    assert shown == there
