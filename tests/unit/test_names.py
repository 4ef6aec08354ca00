"""What a name says holds everywhere: one meaning for each, roles known by planes alone, this machine read by hosts."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.planes.registry import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gpuprov"

# Each means the same wherever it stands.
SHARED_NAMES = {
    "command": "click's command of each verb",
    "main": "what runs when the module is started as a program",
    "check_spec": "the one of the registry hands the roles to the one of spec",
    "load_draft": "the one of the registry hands the roles to the one of spec",
}

# May look at the machine that they run on, besides hosts.
LOOKING = {
    "gpuprov/host/": "a host is what this machine is read through",
    "gpuprov/drivers/": "an engine's daemon is on this machine, and so are its bridges and devices",
    "gpuprov/gpu/facts.py": "roles run it as a program on the host that it is about",
    "gpuprov/verify/probe.py": "runs in a node",
    "gpuprov/verify/questions.py": "runs in a node",
    "gpuprov/core/process.py": "looks at processes of its own",
    "gpuprov/provision/run.py": "looks at processes of its own",
    "gpuprov/provision/transport.py": "looks at processes of its own",
    "gpuprov/provision/unfinished.py": "looks at processes of its own",
    "gpuprov/spec/load.py": "the sources of mounts are looked up below a root, `/` unless a test hands in another one",
    "gpuprov/spec/validate.py": "as spec/load.py; and refuses these folders as targets of mounts",
}
# May look below a root that a host hands in.
LOOKING_BELOW = {
    **LOOKING,
    "gpuprov/gpu/": "GPUs are read below a host's root",
    "gpuprov/documents/bundle_host.py": "a bundle describes a host, by its root",
}
FOLDERS = r"(proc|sys|dev|etc)(/|$)"
OPENERS = ("Path", "open", "os.open", "os.stat", "os.listdir")
COMMANDS = ("ip", "bridge", "iptables", "nft")


@cache
def sources() -> dict[str, ast.Module]:
    """Our modules by path: parsed when a test asks, since every worker imports this file and few run its tests."""
    paths = sorted(chain(PACKAGE.rglob("*.py"), (ROOT / "ansible_collections").rglob("*.py")))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


def public_names(tree: ast.Module) -> Iterator[str]:
    """Names of the classes and functions of a module that others may use."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            yield node.name


def test_no_two_public_classes_or_functions_share_a_name() -> None:
    homes = defaultdict(list)
    for path, tree in sources().items():
        if path.startswith("gpuprov/"):
            for name in public_names(tree):
                homes[name].append(path)
    shared = {name: paths for name, paths in homes.items() if len(paths) > 1 and not are_siblings(paths)}
    assert shared.keys() == SHARED_NAMES.keys(), {
        name: shared.get(name) for name in shared.keys() ^ SHARED_NAMES.keys()
    }


def are_siblings(paths: list[str]) -> bool:
    """Whether each is of another engine's driver: they do the same thing, each with its engine."""
    drivers = [re.match(r"gpuprov/drivers/(\w+)/", path) for path in paths]
    return len({found[1] for found in drivers if found}) == len(paths)


def compared_roles(tree: ast.Module) -> Iterator[str]:
    """Comparisons and patterns that name a role."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Compare, ast.MatchValue)):
            parts = chain.from_iterable(
                side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else [side]
                for side in ([node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.value])
            )
            if any(isinstance(part, ast.Constant) and part.value in ROLES for part in parts):
                yield ast.unparse(node)


def absolute_looks(tree: ast.Module) -> Iterator[str]:
    """Places that read this machine itself: `/proc` and `/sys` by name, `/dev` and `/etc` opened, a command of iproute.

    What nodes are to hold, such as a file of theirs under /etc, is no look at this machine.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"/(proc|sys)(/\S*)?", node.value):
                yield node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in OPENERS:
            path = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if isinstance(path, str) and (path == "/" or re.match(f"/{FOLDERS}", path)):
                yield ast.unparse(node)
        elif isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) > 1:
            first = node.elts[0]
            if isinstance(first, ast.Constant) and first.value in COMMANDS:
                yield ast.unparse(node)


def looks_below(tree: ast.Module) -> Iterator[str]:
    """Places that read such a folder below some root: `root / "proc/devices"`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            right = node.right.values[0] if isinstance(node.right, ast.JoinedStr) else node.right
            if isinstance(right, ast.Constant) and re.match(FOLDERS, str(right.value)):
                yield ast.unparse(node)


RULES = {
    "roles are compared by planes alone": (compared_roles, {"gpuprov/planes/": "planes are what roles are"}),
    "this machine is read by hosts alone": (absolute_looks, LOOKING),
    "a root is read by those that hosts hand it to": (looks_below, LOOKING_BELOW),
}


@pytest.mark.parametrize("rule", RULES)
def test_only_those_do_who_may(rule: str) -> None:
    find, allowed = RULES[rule]
    found = {path: where for path, tree in sources().items() if (where := list(find(tree)))}
    assert {path: where for path, where in found.items() if not path.startswith(tuple(allowed))} == {}


@pytest.mark.parametrize("place", LOOKING_BELOW)
def test_no_exception_outlives_its_reason(place: str) -> None:
    of_place = [tree for path, tree in sources().items() if path.startswith(place)]
    assert any([*absolute_looks(tree), *looks_below(tree)] for tree in of_place)


@pytest.mark.parametrize(
    ("find", "text"),
    [
        (compared_roles, 'role == "slurm"'),
        (compared_roles, 'role in ("slurm", "other")'),
        (compared_roles, 'match role:\n    case "plain":\n        pass'),
        (absolute_looks, 'Path("/")'),
        (absolute_looks, 'Path("/etc/subuid")'),
        (absolute_looks, 'open("/dev/kmsg")'),
        (absolute_looks, 'NET = "/sys/class/net"'),
        (absolute_looks, 'execute(["ip", "-j", "address"])'),
        (looks_below, 'root / "proc/devices"'),
        (looks_below, 'root / f"dev/char/{major}"'),
    ],
)
def test_the_rules_see_what_they_are_about(find: Callable[[ast.Module], Iterator[str]], text: str) -> None:
    assert len(list(find(ast.parse(text)))) == 1
