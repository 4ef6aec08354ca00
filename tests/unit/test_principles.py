"""The map in docs/principles.md leads somewhere."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/principles.md").read_text()
WIDTH = 120
PACKAGES = ("ansible_collections", "gpuprov", "gpuwork", "smoke_kernels")
LONGEST = 500  # lines of a module


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


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The text of every page of Markdown, by its path."""
    folders = (ROOT / name for name in ("ansible_collections", "docs", "examples", "inventories", "roles", "tests"))
    found = [*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))]
    assert {"README.md", "principles.md", "CHANGELOG.md"} <= {page.name for page in found}
    return {str(page.relative_to(ROOT)): page.read_text() for page in found}


def test_lines_of_docs_fit_unless_they_are_of_tables(pages: dict[str, str]) -> None:
    lines = [(page, line) for page, text in pages.items() for line in text.splitlines()]
    assert [(page, line) for page, line in lines if len(line) > WIDTH and not line.startswith("|")] == []


def test_every_test_that_a_page_names_is_there(pages: dict[str, str]) -> None:
    named = {(page, path) for page, text in pages.items() for path in re.findall(r"\btests/[\w/]+\.\w+", text)}
    assert len(named) > 60
    roots = (ROOT, ROOT / "ansible_collections/gpuprov/cluster")  # a collection has tests of its own
    assert [(page, path) for page, path in sorted(named) if not any((root / path).is_file() for root in roots)] == []


def test_no_module_is_long() -> None:
    modules = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    assert len(modules) > 600
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules}
    assert {path: size for path, size in sizes.items() if size > LONGEST} == {}
