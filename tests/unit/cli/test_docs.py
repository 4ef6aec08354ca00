"""docs/commands.md and the program say the same."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from gpuprov.cli.failure import EXIT_UNEXPECTED
from gpuprov.cli.main import EXIT_INTERRUPTED, root
from gpuprov.cli.verbs import GROUPS, HIDDEN, VERBS
from gpuprov.core.errors import GpuprovError
from gpuprov.spec.gpu_order import CRITERIA

DOCS = Path(__file__).parents[3] / "docs"
ROW = re.compile(r"^\| `([^`]+)` \|.*\| ?([^|]*) ?\|$", re.MULTILINE)
COMMON = {"--quiet", "--verbose", "--json", "--engine"}
CRITERIA_LINK = "[what each GPU has](spec.md#options-for-gpus)"
LEAVES = [path for path, verb in VERBS.items() if verb.module]


def find(path: str) -> click.Command:
    command: click.Command = root()
    for name in path.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


def verb_of(usage: str) -> str:
    """`cluster status [NAME]` is of `cluster status`."""
    words = re.findall(r"^[a-z -]*[a-z](?= |$)", usage)[0].split()
    return " ".join(words).removesuffix(" --")


@pytest.fixture(scope="module")
def documented() -> dict[str, set[str]]:
    """Verb to the options in its row."""
    text = (DOCS / "commands.md").read_text().partition("## Exit codes")[0]
    text = text.replace(CRITERIA_LINK, " ".join(one.option for one in CRITERIA.values()))
    return {verb_of(usage): set(re.findall(r"--[a-z-]+", options)) for usage, options in ROW.findall(text)}


def test_every_verb_is_documented_and_nothing_else(documented: dict[str, set[str]]) -> None:
    assert set(documented) == set(LEAVES)


def test_the_help_has_the_sections_of_the_page_and_every_verb_in_one() -> None:
    text = (DOCS / "commands.md").read_text().partition("## Exit codes")[0]
    sections = [part for part in text.split("### ")[1:] if ROW.search(part)]
    page = {
        part.partition("\n")[0]: list(dict.fromkeys(verb_of(usage).split()[0] for usage, _ in ROW.findall(part)))
        for part in sections
    }
    assert {title: list(names) for title, names in GROUPS.items()} == page
    assert sorted(name for names in GROUPS.values() for name in names) == sorted({path.split()[0] for path in VERBS})


@pytest.mark.parametrize("path", LEAVES)
def test_the_options_are_those_of_the_help(path: str, documented: dict[str, set[str]]) -> None:
    options = {
        next(name for name in reversed(parameter.opts) if name.startswith("--"))
        for parameter in find(path).params
        if isinstance(parameter, click.Option)
    }
    assert documented[path] == options - COMMON


def test_every_exit_code_is_documented() -> None:
    text = (DOCS / "commands.md").read_text().partition("## Exit codes")[2].partition("##")[0]
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    kinds = [GpuprovError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    assert documented == {kind.exit_code for kind in kinds} | {0, EXIT_UNEXPECTED, EXIT_INTERRUPTED}


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    controllers = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", controller).lower() for controller in controllers]
    return {re.sub(r"[^\w\- ]", "", controller).strip().replace(" ", "-") for controller in plain}


def test_links_between_documents_lead_somewhere() -> None:
    top = DOCS.parent
    for page in (*DOCS.glob("*.md"), *top.glob("*.md"), *top.glob("roles/*/*.md"), *top.glob("examples/*/*.md")):
        for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
            if "://" in target:
                continue
            there = page.parent / target.strip() if target else page
            assert there.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(there), f"{page.name}: {target}#{anchor}"


def test_documents_name_only_verbs_that_exist() -> None:
    groups = {path for path, verb in VERBS.items() if not verb.module}
    for page in (*DOCS.glob("*.md"), DOCS.parent / "README.md"):
        for first, second in re.findall(
            r"(?:`|\$ |^    )gpuprov ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", page.read_text(), re.MULTILINE
        ):
            path = f"{first} {second}" if first in groups and second else first
            assert path in VERBS or path in HIDDEN, f"{page.name}: gpuprov {path}"
