"""The commands in the words of a fix, and every fix in the source."""

from __future__ import annotations

import ast
import json
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuprov.cli.main import root
from gpuprov.cli.session import Session
from gpuprov.cli.verbs import VERBS
from tests.sources import nodes_of, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[1] / "gpuprov"
WORDS = {name.split()[0] for name, verb in VERBS.items() if verb.module}
# What follows the program's name where no command is meant
PROSE = frozenset(
    (
        "again",
        "and",
        "did",
        "does",
        "has",
        "holds",
        "images",
        "images:",
        "is",
        "label",
        "lacks",
        "needs",
        "network",
        "run",
        "sets",
        "there",
        "...",
    )
)
_ENDS = r",|;|\)| \(|\n| +#| && | \|\| | \| |: |`"
_NO_ARTICLE = r"(?<![\w./-])(?<!\ba )(?<!\bA )(?<!no )(?<!the )(?<!not )"
_COMMAND = re.compile(rf"""{_NO_ARTICLE}gpuprov ((?:'[^']*'|"[^"]*"|(?!{_ENDS}).)+)""")
# What stands for a word that the reader knows
READERS = {
    "DIR": ".",
    "HASH": "0123456",
    "NODE": "c001",
    "NAME": "web",
    "NEW": "copy",
    "CLUSTER": "lab",
    "PLAYBOOK": "site.yml",
    "PORT": "8080",
}
# What may stand for an expression of the source; `c001` for any other
_SAMPLES = {
    **dict.fromkeys(("kernel", "order.kernel", "self.kernel"), "matmul"),
    **dict.fromkeys(("engine", "engines[-1]", "door.name", "holder.engine", "driver.name", "self._driver.name"), "lxd"),
    **dict.fromkeys(("owner", "spec.name", "state.name", "cluster", "report.cluster"), "lab"),
    "network.labels[LABEL_CLUSTER]": "lab",
    **dict.fromkeys(("__version__", "version", "machine or name", "xid", "order.gpus"), "79"),
    **dict.fromkeys(("GOOD_POOL_GIB", "port", "exposure.host_port", "exposure.node_port", "free_port"), "79"),
    **dict.fromkeys(("self.name", "spec.nodes.role"), "slurm"),
    "spec.name[:20]": "lab",
    "again": "expose c001 8080",
    "gone.uid": "10001",
    "verb": "show",
    "grid_verb": "status",
    "job": "7",
    "typed": "7",
    "self._kind": "bundle",
    "instead": "--level full",
    "'' if recorded else ' -n 4'": " -n 4",
    "f'gpuprov rm {controller}; ' if role else ''": "gpuprov rm c001; ",
}
_NAMED = re.compile(r"""gpuprov["' ]""")  # also at the end of a literal that the next one goes on
_EXPRESSION = re.compile(r"\{((?:[^{}]|\{[^{}]*\})*)\}")


def commands(fix: str) -> list[list[str]]:
    """The commands of ours in a fix, without the program's name; raises where it is not followed by a verb."""
    found = []
    for match in _COMMAND.finditer(fix):
        argv = [READERS.get(word, word) for word in shlex.split(match[1].rstrip(". "))]
        if not argv or argv[0] in PROSE or argv[0][0].isdigit():
            continue
        if argv[0] not in WORDS:
            raise ValueError(f"{argv[0]!r} is no verb: {fix}")
        found.append(argv)
    return found


def parse(argv: list[str]) -> dict[str, Any]:
    """The parameters that it becomes; raises where a verb or an option is unknown, or a word too many."""
    command: click.Command | None = root()
    context = click.Context(root())
    while isinstance(command, click.Group) and argv and not argv[0].startswith("-"):
        command, argv = command.get_command(context, argv[0]), argv[1:]
    assert command is not None
    if "--help" in argv:
        return {}
    return command.make_context("gpuprov", list(argv), obj=Session()).params


@dataclass(frozen=True)
class Site:
    """A place in the source that suggests something.

    Attributes:
        file: Below gpuprov/.
        text: The words, with `{expression}` where they are only known later.
    """

    file: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"

    @property
    def sample(self) -> str:
        """The words as somebody may see them."""
        return _EXPRESSION.sub(lambda found: _SAMPLES.get(found[1], "c001"), self.text)

    def covers(self, fix: str) -> bool:
        """Whether a fix that was shown can have come from here."""
        parts = _EXPRESSION.split(self.text)[::2]
        return re.search(".*".join(map(re.escape, parts)), fix, re.DOTALL) is not None


@cache
def find_sites() -> tuple[Site, ...]:
    """Those of the source and of the catalogue."""
    return tuple(_find_sites())


def _find_sites() -> Iterator[Site]:
    """Every text outside of comments and docstrings in which the program is named, and the catalogue's fixes."""
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if not _NAMED.search(source):
            continue
        nodes = nodes_of(parsed(path))
        skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
        skipped |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in skipped:
                text = _text(node)
                if "gpuprov " in text:
                    yield Site(str(path.relative_to(SOURCE)), text)
    for name, entry in json.loads((SOURCE / "core/catalogue.json").read_text(encoding="utf-8")).items():
        for situation, text in {"": entry["fix"], **entry.get("fixes", {})}.items():
            if "gpuprov " in text:
                yield Site(f"core/catalogue.json: {name}{f'/{situation}' if situation else ''}", text)


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    parts = (
        str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"  # type: ignore[attr-defined]
        for part in node.values
    )
    return "".join(parts)
