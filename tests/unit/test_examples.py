"""What the READMEs of the examples say is so: commands are understood, files are there, versions are the specs'."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from gpuprov.roles.registry import load_draft
from gpuprov.shapes.choices import DEFAULT_CLUSTER
from tests.suggestions import parse

ROOT = Path(__file__).parents[2]
READMES = sorted((ROOT / "examples").glob("*/README.md"))
SPECS = sorted((ROOT / "examples").glob("*/cluster.yaml"))
SPECIFIED = [ROOT / "examples/lab.yaml", *SPECS]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *READMES]
TYPED = re.compile(r"^    (?:\$ )?(?:[A-Z_]+=\S+ )*gpuprov ((?:.*\\\n)*.*)$", re.MULTILINE)


def typed(page: str, *verbs: str) -> list[list[str]]:
    """The commands of ours on a page, or those of some verbs, without the program's name and what the shell reads."""
    found = []
    for line in TYPED.findall(page):
        if verbs and not line.startswith(verbs):
            continue
        words = shlex.split(line.replace("\\\n", " "), comments=True)
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
             if "python" in yaml.safe_load(path.read_text()).get("image", {})}  # fmt: skip
    assert len(there) == 3
    assert shown == there


def test_every_spec_names_a_cluster_of_its_own() -> None:
    drafts = [load_draft(path) for path in SPECIFIED]
    names = [draft.spec.name for draft in drafts]
    assert len({DEFAULT_CLUSTER, *names}) == len(names) + 1
    assert {draft.spec.nodes.prefix for draft in drafts} == {f"{name}-" for name in names}
    for page in PAGES:
        for snippet in re.findall(r"^    version: gpuprov/v1\n((?:    .*\n)*)", page.read_text(), re.MULTILINE):
            assert yaml.safe_load(snippet)["name"] not in (DEFAULT_CLUSTER, *names), page


@pytest.mark.parametrize("path", SPECS, ids=[path.parent.name for path in SPECS])
def test_its_commands_act_on_its_own_cluster(path: Path) -> None:
    name, page = load_draft(path).spec.name, path.parent / "README.md"
    assert typed(page.read_text(), "cluster up")
    for argv in typed(page.read_text()):
        said = parse(argv)
        if argv[:2] == ["cluster", "up"]:
            assert str(said["file"]) in (f"examples/{path.parent.name}/cluster.yaml", "cluster.yaml")
        elif argv[:2] == ["cluster", "down"]:
            assert said["cluster"] == name
        elif "cluster" in said and not said.get("local"):
            assert said["cluster"] == name, argv
        nodes = [word for word in argv if re.match(r"[a-z-]+\d{3}(:|$)", word)]
        assert all(node.startswith(f"{name}-") for node in nodes), argv


@pytest.mark.parametrize("page", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_no_page_takes_nodes_or_the_folder_of_the_usual_cluster(page: Path) -> None:
    """Whoever types a page line by line keeps `lab` as `make up` made it, but for what a line says it does."""
    brought = {}
    for argv in typed(page.read_text(), "cluster up", "program run"):
        said = parse(argv)
        if argv[0] == "program":
            if said.get("data") and "examples/" in str(said["data"]) and not said["local"]:
                assert said["cluster"] in brought, argv
            continue
        file = str(said["file"] or "")
        if file.startswith("examples/"):
            brought[load_draft(ROOT / file).spec.name] = file
        elif not file and said["name"] in (None, DEFAULT_CLUSTER):
            assert (said["count"] or 4) >= 4, argv
            assert said["role"] is None, argv
            assert said["share"] in (None, "true"), argv
