"""What the first word of a function's name promises (CONTRIBUTING.md, "Where things go") holds."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sources import nodes_of
from tests.unit.test_names import acts, all_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PURE = ("plan", "render", "parse", "judge", "decide")
# Through these a function reaches an engine, a host, or other hosts.
REACHING = re.compile(r"\b(Driver|Host|Hosts|HostFolders|Reporter)\b")
# Have no limit of their own in sight.
WAITING = {
    "side_by_side.py: wait_for_it": "what it waits for was given its limit",
    "base.py: wait_ready": "plain nodes are ready at once",
    "role.py: wait_ready": "daemons.py and services.py of the role have the limit",
    "nodes_work.py: wait_ready": "each host has the limit of its role",
    "ready.py: wait_ready_there": "the host has that of its role",
}


def functions(*prefixes: str, own: bool = True) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions whose names begin with one of these words; without `own`, only those for other modules."""
    pattern = re.compile(rf"{'_?' if own else ''}({'|'.join(prefixes)})_")
    for path, tree in all_sources().items():
        for node in nodes_of(tree):
            if isinstance(node, ast.FunctionDef) and pattern.match(node.name):
                yield path, node


def is_impure(node: ast.FunctionDef) -> bool:
    """Whether it acts, or is handed what reaches outside."""
    arguments = [*node.args.args, *node.args.kwonlyargs]
    types = [ast.unparse(argument.annotation) for argument in arguments if argument.annotation]
    return any(map(REACHING.search, types)) or any(acts(ast.Module(body=[node], type_ignores=[])))


def waits_for_ever(node: ast.FunctionDef) -> bool:
    """Whether no limit of time is in sight: no argument, no constant."""
    names = {part.arg for part in ast.walk(node) if isinstance(part, (ast.arg, ast.keyword)) and part.arg}
    names |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return not any(re.search(r"_s$|_S$|limit|budget", name) for name in names)


def test_what_is_called_pure_does_not_act() -> None:
    found = [f"{path}: {node.name}" for path, node in functions(*PURE) if is_impure(node)]
    assert found == []


def test_what_waits_has_a_limit() -> None:
    found = {f"{Path(path).name}: {node.name}" for path, node in functions("wait", own=False) if waits_for_ever(node)}
    assert found == WAITING.keys()


@pytest.mark.parametrize(
    ("breaks", "text"),
    [
        (is_impure, "def plan_x(driver: Driver) -> X: ..."),
        (is_impure, "def plan_x(hosts: Hosts | None) -> X: ..."),
        (is_impure, "def render_x() -> str: return str(os.getpid())"),
        (waits_for_ever, "def wait_x(nodes: Names) -> None: ..."),
    ],
)
def test_a_name_that_breaks_its_promise_is_seen(breaks: Callable[[ast.FunctionDef], bool], text: str) -> None:
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    assert breaks(node)


@pytest.mark.parametrize(
    ("breaks", "text"),
    [
        (is_impure, "def plan_x(gpus: HostGpus) -> X: return X(gpus)"),
        (waits_for_ever, "def wait_x(timeout_s: float) -> None: ..."),
        (waits_for_ever, "def wait_x() -> None: ask(limit_s=_READY_S)"),
    ],
)
def test_a_name_that_keeps_its_promise_passes(breaks: Callable[[ast.FunctionDef], bool], text: str) -> None:
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef)
    assert not breaks(node)
