"""Whoever types all pages in order, README first, keeps `lab`, and is refused only where the page says so."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from gpuprov.cli.main import main
from gpuprov.cli.session import Session
from gpuprov.cluster.images import node_recipe
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, LABEL_RECIPE, LABEL_ROLE
from gpuprov.provision.recipe_record import dump_recipe_record, record_recipe
from gpuprov.roles.registry import ROLES, load_draft
from gpuprov.shapes.choices import DEFAULT_CLUSTER
from gpuprov.spec.shared_folder import SHARED
from tests.fakes.engine import FakeImage
from tests.suggestions import READERS, parse

if TYPE_CHECKING:
    from tests.fakes.world import World
    from tests.unit.cli.conftest import Typed

ROOT = Path(__file__).parents[3]
# What is only parsed, and why a fake engine cannot show it
LEFT_OUT = {
    "anneal run *": "needs jobs that run, or this machine's GPUs",
    "cdi *": "writes for engines of this machine",
    "cluster restore *": "the cluster is there",
    "cluster save *": "writes files of the reader",
    "cluster up -f cluster.yaml": "a file that the reader writes",
    "cluster up -f hosts.yaml *": "needs other machines",
    "cluster up -f lab.yaml": "a file that the reader writes",
    "cluster up -f wide.yaml": "needs other machines",
    "cp *": "needs the files of nodes",
    "create-node parts *": "needs GPUs that are cut",
    "exec parts *": "needs GPUs that are cut",
    "gate *": "registers with Docker of this machine",
    "gpus --watch": "does not end",
    "grid *": "needs jobs that run, or this machine's packages",
    "host *": "changes this machine, or needs another one",
    "image build*": "downloads packages",
    "image rm --unused": "removes what later pages use",
    "jobs *": "needs jobs that run",
    "person add ann --key *": "needs a key of the reader",
    "play *": "needs a playbook of the reader",
    "program *": "needs jobs that run, or this machine's GPUs",
    "queue page": "does not end",
    "record": "reads this machine",
    "rest": "does not end",
    "run *": "needs Docker",
    "smoke *": "needs kernels that run",
    "ssh *": "needs ssh",
    "submit *": "needs jobs that run",
    "verify --watch *": "does not end",
}
_TYPED = re.compile(
    r"^ {4,}(?P<prompt>\$ )?(?P<line>(?:(?:[A-Z_]+=\S+ |sudo )*gpuprov [a-z-]|cd )(?:.*\\\n)*.*)\n", re.MULTILINE
)
_SHOWN = re.compile(r"(?: {4}(?!\$ ).*\n)*")
_QUESTION = "To go on, type "


@dataclass(frozen=True, kw_only=True)
class Line:
    """A command on a page.

    Attributes:
        where: The page and the number of its line.
        argv: Without the program's name and what the shell reads.
        folder: Where the `cd` before it lead, below the checkout.
        shown: What the page shows of its output.
    """

    where: str
    argv: tuple[str, ...]
    folder: str
    shown: str

    @property
    def left_out(self) -> list[str]:
        return [pattern for pattern in LEFT_OUT if fnmatchcase(" ".join(self.argv), pattern)]


def read_pages() -> list[str]:
    """README, what its table lists, and the rest."""
    listed = re.findall(r"\]\(((?:docs|examples)/\S+?\.md)\)", (ROOT / "README.md").read_text())
    rest = sorted((*ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/README.md")))
    return list(dict.fromkeys(("README.md", *listed, *(str(path.relative_to(ROOT)) for path in rest))))


def read_lines(page: str) -> list[Line]:
    text, folder, found = (ROOT / page).read_text(), Path(), []
    for match in _TYPED.finditer(text):
        words = shlex.split(match["line"].replace("\\\n", " "), comments=True)
        if words[0] == "cd":
            folder /= words[1]
            continue
        words = words[words.index("gpuprov") + 1 :]
        end = next((at for at, word in enumerate(words) if word[0] in "<>|&"), len(words))
        shown = _SHOWN.match(text, match.end()) if match["prompt"] else None
        line = Line(
            where=f"{page}:{text.count(chr(10), 0, match.start()) + 1}",
            argv=tuple(words[:end]),
            folder=str(folder),
            shown=shown[0] if shown else "",
        )
        found.append(line)
    return found


PAGES = read_pages()
LINES = [line for page in PAGES for line in read_lines(page)]


def give_images(world: World, checkout: Path) -> None:
    """Those that the specs there need: nothing is built."""
    for path in checkout.rglob("*.yaml"):
        if not path.read_text().startswith("version: gpuprov/v1") and path.name != "lab.yaml":
            continue
        spec = load_draft(path).spec
        recipe = node_recipe(spec, ROLES[spec.nodes.role].recipe, world.gpus, init="systemd")
        record = record_recipe(recipe, recipe.hash_contents())
        labels = {LABEL_FINGERPRINT: record.fingerprint, LABEL_RECIPE: dump_recipe_record(record)}
        beside = world.engine.images[spec.nodes.role].labels
        world.engine.images[spec.name] = FakeImage(id=spec.name, name=spec.name, labels={**beside, **labels})


def look(world: World) -> set[tuple[str, str]]:
    """What `lab` has: its nodes, those that run, their roles, and the folder that they share."""
    found = set()
    for name, node in world.engine.nodes.items():
        if node.labels.get(LABEL_CLUSTER) == DEFAULT_CLUSTER:
            found |= {(name, "is there"), (name, node.status), (name, node.labels[LABEL_ROLE])}
            found |= {(name, mount.source) for mount in node.mounts if mount.target == SHARED}
    return found - {(name, "stopped") for name in world.names}


def says_so(line: Line, lost: set[tuple[str, str]]) -> bool:
    """Whether a command names what `lab` loses by it; fewer nodes than another page made do not count."""
    if line.argv[:2] == ("cluster", "down"):
        return parse(list(line.argv))["cluster"] in (None, DEFAULT_CLUSTER)
    return line.argv[0] in ("rm", "stop") and {name for name, _what in lost} <= set(line.argv)


class Reader:
    """Somebody at a terminal, who answers the question of `cluster down`, and no other, unless a page leaves it open.

    Attributes:
        line: What was typed last.
        asked: Questions that no page tells of.
    """

    def __init__(self) -> None:
        self.line = LINES[0]
        self.asked: list[str] = []

    def prompt(self, text: str, **_options: object) -> str:
        if _QUESTION in self.line.shown:
            return ""
        if self.line.argv[:2] == ("cluster", "down"):
            return text.removeprefix(_QUESTION)
        self.confirm(text)
        return ""

    def confirm(self, text: str, **_options: object) -> bool:
        self.asked.append(f"{self.line.where}: {text}")
        return False


@pytest.mark.slow
def test_all_pages_in_order_keep_the_usual_cluster(
    typed: Typed, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world, reader = typed.world, Reader()
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "examples", checkout / "examples")
    (checkout / "notebooks.yaml").write_text(snippet("docs/notebooks.md"))
    (checkout / "vision").mkdir()  # a project of the reader
    monkeypatch.setattr(Session, "interactive", True)
    monkeypatch.setattr(click, "prompt", reader.prompt)
    monkeypatch.setattr(click, "confirm", reader.confirm)
    world.up(4)
    give_images(world, checkout)

    faults = []
    for line in LINES:
        if line.left_out:
            continue
        monkeypatch.chdir(checkout / line.folder)
        reader.line, before = line, look(world)
        capsys.readouterr()
        code = main(list(line.argv), host=world.host)
        said = capsys.readouterr().err
        told = f"{line.where}: {' '.join(line.argv)}"
        refused = re.search("^ *(error: |To go on)", line.shown, re.MULTILINE)
        if code == 70 or "Traceback" in said or (code == 2 and not refused):
            faults.append(f"{told}: {code} {said}")
        lost = before - look(world)
        if lost and not says_so(line, lost):
            faults.append(f"{told}: {DEFAULT_CLUSTER} loses {sorted(lost)}")
    assert faults == []
    assert reader.asked == []
    assert {(name, "running") for name in ("c000", "c001", "c002", "c003")} <= look(world)


def snippet(page: str) -> str:
    """The spec that a page shows."""
    found = re.findall(r"^    version: gpuprov/v1\n(?:    .*\n)*", (ROOT / page).read_text(), re.MULTILINE)
    assert len(found) == 1, page
    return re.sub("^    ", "", found[0], flags=re.MULTILINE)


@pytest.mark.parametrize("line", [line for line in LINES if line.left_out], ids=lambda line: line.where)
def test_what_is_not_typed_is_understood(line: Line) -> None:
    parse([READERS.get(word, word) for word in line.argv])


def test_what_is_left_out_is_on_a_page() -> None:
    assert {pattern for line in LINES for pattern in line.left_out} == set(LEFT_OUT)
