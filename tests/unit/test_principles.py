"""The map in docs/principles.md leads somewhere."""

from __future__ import annotations

import ast
import re
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/principles.md").read_text()
STORIES = ROOT / "gpuprov/workflows"
TOLD = tuple(ROOT / f"gpuprov/{floor}" for floor in ("workflows", "serving", "spanning"))
WIDTH = 120
FLOORS = tuple(f"gpuprov.{floor}." for floor in ("cluster", "documents", "gpu", "host", "planes", "workflows"))
VOCABULARY = {
    "gpu/models.py",
    "host/base.py",
    "planes/base.py",
    "planes/registry.py",
}  # types, and where they are listed


def test_every_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"`((?:gpuprov/)?[a-z_]+/[a-z_/]+(?:\.\w+|/)?)`", TEXT))
    assert len(named) > 40
    assert [name for name in named if not ((ROOT / name).exists() or (ROOT / "gpuprov" / name).exists())] == []


def test_its_floors_are_those_that_are_enforced() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    floors = re.search(r"^    (cli > .*\n.*)$", TEXT, re.MULTILINE)
    assert floors
    layers = config["importlinter:contract:layers"]["layers"].split("\n")
    told = " ".join(floors[1].split()).replace("{", "").replace("}", "").replace("|", " | ")
    assert told == " > ".join(layer for layer in layers if layer)


def test_there_are_few_stories_and_each_is_told() -> None:
    assert 20 < len([path for path in STORIES.rglob("*.py") if path.name != "__init__.py"]) <= 28
    paths = {path for floor in TOLD for path in floor.rglob("*.py") if path.name != "__init__.py"}
    stories = {path.name for path in paths}
    assert len(stories) == len(paths)
    assert stories == {name for name in re.findall(r"`(?:workflows/)?([a-z_]+\.py)`", TEXT) if name in stories}


@pytest.mark.parametrize(
    ("command", "story"),
    [("cluster up", "cluster_up"), ("create-node", "create_node"), ("verify", "verify"), ("run", "run_job")],
)
def test_the_files_of_a_command_are_those_that_its_story_enters(command: str, story: str) -> None:
    told = TEXT.partition(f"### `{command}`\n")[2].partition("\n##")[0]
    tree = ast.parse((STORIES / f"{story}.py").read_text())
    entered = {
        node.module.removeprefix("gpuprov.").replace(".", "/") + ".py"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(FLOORS)
    }
    assert entered - VOCABULARY - set(re.findall(r"`([a-z_/]+\.py)`", told)) == set()


def test_lines_of_docs_fit_unless_they_are_of_tables() -> None:
    folders = (ROOT / name for name in ("ansible_collections", "docs", "examples", "inventories", "roles", "tests"))
    pages = [*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]
    assert {"README.md", "principles.md", "CHANGELOG.md"} <= {page.name for page in pages}
    lines = [(str(page.relative_to(ROOT)), line) for page in pages for line in page.read_text().splitlines()]
    assert [(page, line) for page, line in lines if len(line) > WIDTH and not line.startswith("|")] == []
