"""The map in docs/principles.md leads somewhere."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/principles.md").read_text()
STORIES = ROOT / "gpuprov/workflows"


def test_every_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"`((?:gpuprov/)?[a-z_]+/[a-z_/]+(?:\.\w+|/)?)`", TEXT))
    assert len(named) > 40
    assert [name for name in named if not ((ROOT / name).exists() or (ROOT / "gpuprov" / name).exists())] == []


def test_its_floors_are_those_that_are_enforced() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    floors = re.search(r"^    (cli > .*)$", TEXT, re.MULTILINE)
    assert floors
    layers = config["importlinter:contract:layers"]["layers"].split("\n")
    assert floors[1].replace("{", "").replace("}", "") == " > ".join(layer for layer in layers if layer)


def test_there_are_few_stories() -> None:
    assert len([path for path in STORIES.glob("*.py") if path.name != "__init__.py"]) <= 28
