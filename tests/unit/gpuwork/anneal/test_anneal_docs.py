"""The pages on annealing and the program say the same."""

from __future__ import annotations

import re
from pathlib import Path

from gpuprov.shapes.anneal_settings import AnnealSettings
from gpuwork.anneal.arguments import build_parser
from gpuwork.anneal.contract import FUNCTIONS
from gpuwork.anneal.settings import NAMES

PAGE = "".join((Path(__file__).parents[4] / f"docs/{page}.md").read_text() for page in ("anneal", "anneal-internals"))


def section(title: str) -> str:
    """What stands below a heading, up to the next one."""
    found: str = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    assert found
    return found


def test_the_verbs_and_options_are_those_of_the_program() -> None:
    verbs = build_parser()[1].choices
    table = re.findall(r"^\| `([a-z]+)[^`|]*` \| [^|]+ \|(.*)\|$", section("The program"), re.MULTILINE)
    documented = {verb: set(re.findall(r"--[a-z-]+", options)) for verb, options in table}
    there = {
        verb: {option for action in parser._actions for option in action.option_strings if len(option) > 2} - {"--help"}
        for verb, parser in verbs.items()
    }
    assert documented == there


def test_the_functions_are_those_of_the_contract() -> None:
    found = dict(re.findall(r"^\| `([a-z_]+)\(([a-z_, ]*)\)` \| (?:host|device)", PAGE, re.MULTILINE))
    assert found == {name: ", ".join(arguments) for name, arguments in FUNCTIONS.items()}


def test_the_settings_and_their_defaults_are_those_of_the_program() -> None:
    rows = re.findall(r"^\| (`[a-z_`, ]+) \| [^|]+ \| ([^|]+) \|$", section("A configuration"), re.MULTILINE)
    names = [name for row, _ in rows for name in re.findall(r"`([a-z_]+)`", row)]
    assert sorted(names) == sorted(NAMES)
    settings = AnnealSettings(dimensions=1)
    for row, default in rows:
        if re.fullmatch(r"`?[0-9a-z.]+`?", default) and default != "none":
            assert str(getattr(settings, row.strip("`"))) == default.strip("`"), row
