"""What a name says holds everywhere: one meaning for each, roles known by roles alone, this machine read by hosts."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.roles.registry import ROLE_NAMES
from tests.sources import nodes_of, parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
NEIGHBOURS = ("gpuwork", "smoke_kernels")  # import nothing from gpuprov

# Each means the same wherever it stands.
# May look at the machine that they run on, besides hosts.
LOOKING = {
    "gpuprov/machine/": "a host is what this machine is read through",
    "gpuprov/link/bare_program.py": "it runs on a host that has Python alone",
    "gpuprov/project/": "a folder of this machine's user, whatever the host",
    "gpuprov/drivers/": "an engine's daemon is on this machine, and so are its bridges and devices",
    "gpuprov/gpu/facts.py": "roles run it as a program on the host that it is about",
    "gpuprov/runtime/": "runs in place of runc, on the machine that it is about",
    "gpuprov/verify/probe.py": "runs in a node",
    "gpuprov/verify/questions.py": "runs in a node",
    "gpuprov/core/process.py": "looks at processes of its own",
    "gpuprov/cli/stdout.py": "where its own stdout leads to",
    "gpuprov/core/side_by_side.py": "counts processors, for how many threads it may have",
    "gpuprov/cluster/services.py": "says which command shows the journal in a node",
    "gpuprov/core/activity.py": "whether a command or a play goes on",
    "gpuprov/provision/run.py": "looks at processes of its own",
    "gpuprov/provision/transport.py": "looks at processes of its own",
    "gpuprov/provision/unfinished.py": "looks at processes of its own",
    "gpuprov/spec/load.py": "the sources of mounts are looked up below a root, `/` unless a test hands in another one",
    "gpuprov/spec/shared_folder.py": "refuses these folders as those that nodes share",
    "gpuprov/spec/validate.py": "as spec/load.py; and refuses these folders as targets of mounts",
}
# May look below a root that a host hands in.
LOOKING_BELOW = {
    **LOOKING,
    "gpuprov/gpu/": "GPUs are read below a host's root",
    "gpuprov/machine/bundle.py": "a bundle describes a host, by its root",
}
# What a module that is called pure may import though it acts.
SHIPPED = "reads what is shipped with gpuprov, which never changes"
ACTING = {
    "gpuprov/assets.py": SHIPPED,
    "gpuprov/core/advisories.py": SHIPPED,
    "gpuprov/core/catalogue.py": SHIPPED,
    "gpuprov/core/requirements.py": SHIPPED,
    "gpuprov/gpu/xids.py": SHIPPED,
    "gpuprov/roles/slurm/facts.py": SHIPPED,
    "gpuprov/verify/program.py": SHIPPED,
    "gpuprov/verify/request.py": SHIPPED,
    "gpuprov/core/process.py": "roles/slurm/words.py asks whether a process still lives, and says so",
    "gpuprov/roles/slurm/words.py": "asks whether a process still lives, and says so",
}
ACTS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "exists", "is_file", "is_dir", "iterdir", "glob"),
    *("stat", "mkdir", "unlink", "execute"),
}
ACTORS = {"driver", "_driver", "host", "_host", "os", "subprocess", "socket"}
VALUES = {"host.current"}  # of the GPUs of a host, which are a value
FOLDERS = r"(proc|sys|dev|etc)(/|$)"
OPENERS = ("Path", "open", "os.open", "os.stat", "os.listdir")
COMMANDS = ("ip", "bridge", "iptables", "nft", "dmesg", "journalctl")
MEASURES = ("disk_usage", "statvfs", "cpu_count", "sched_getaffinity")


@cache
def all_sources() -> dict[str, ast.Module]:
    """Our modules by path: parsed when a test asks, since every worker imports this file and few run its tests."""
    folders = ("gpuprov", "ansible_collections", *NEIGHBOURS)
    paths = chain.from_iterable(sorted((ROOT / folder).rglob("*.py")) for folder in folders)
    return {str(path.relative_to(ROOT)): parsed(path) for path in paths}


@cache
def sources() -> dict[str, ast.Module]:
    """Those of gpuprov and its collection."""
    return {path: tree for path, tree in all_sources().items() if not path.startswith(NEIGHBOURS)}


def compared_roles(tree: ast.Module) -> Iterator[str]:
    """Comparisons and patterns that name a role."""
    for node in nodes_of(tree):
        if isinstance(node, (ast.Compare, ast.MatchValue)):
            parts = chain.from_iterable(
                side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else [side]
                for side in ([node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.value])
            )
            if any(isinstance(part, ast.Constant) and part.value in ROLE_NAMES for part in parts):
                yield ast.unparse(node)


def absolute_looks(tree: ast.Module) -> Iterator[str]:
    """Places that read this machine itself.

    These are `/proc` and `/sys` by name, `/dev` and `/etc` opened, a command that shows links or logs, and what
    measures disks and processors.

    What nodes are to hold, such as a file of theirs under /etc, is no look at this machine.
    """
    for node in nodes_of(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"/(proc|sys)(/\S*)?", node.value):
                yield node.value
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in OPENERS:
            path = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if isinstance(path, str) and (path == "/" or re.match(f"/{FOLDERS}", path)):
                yield ast.unparse(node)
        elif isinstance(node, (ast.Attribute, ast.alias)):
            if (node.attr if isinstance(node, ast.Attribute) else node.name) in MEASURES:
                yield ast.unparse(node)
        elif isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) > 1:
            first = node.elts[0]
            if isinstance(first, ast.Constant) and first.value in COMMANDS:
                yield ast.unparse(node)


def looks_below(tree: ast.Module) -> Iterator[str]:
    """Places that read such a folder below some root: `root / "proc/devices"`."""
    for node in nodes_of(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            right = node.right.values[0] if isinstance(node.right, ast.JoinedStr) else node.right
            if isinstance(right, ast.Constant) and re.match(FOLDERS, str(right.value)):
                yield ast.unparse(node)


# Tell one thing that falls apart if it is cut.
LONG = {
    "benchmarks/gpu_proof/parts.py: plan_parts": "a table of parts",
    "gpuwork/anneal/kernel.py: _chain_source": "a CUDA kernel, and the constants that it closes over",
    "gpuwork/anneal/kernel.py: anneal": "a CUDA kernel",
    "smoke_kernels/anneal/kernel.py: anneal": "a CUDA kernel",
    "smoke_kernels/anneal/kernel.py: anneal_source": "a CUDA kernel, and the constants that it closes over",
    "smoke_kernels/anneal/single.py: single": "a CUDA kernel",
    "smoke_kernels/anneal/single.py: single_source": "a CUDA kernel, and the constants that it closes over",
    "smoke_kernels/matmul/kernel.py: matmul_source": "a CUDA kernel, and the constants that it closes over",
}
MOST_LINES = 60


@pytest.mark.slow
def test_functions_are_short() -> None:
    benchmarks = {str(path.relative_to(ROOT)): parsed(path) for path in (ROOT / "benchmarks").rglob("*.py")}
    found = {
        f"{path}: {node.name}"
        for path, tree in {**all_sources(), **benchmarks}.items()
        for node in nodes_of(tree)
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= MOST_LINES
    }
    assert found == LONG.keys()


def acts(tree: ast.Module) -> Iterator[str]:
    """Calls that read or change something outside: files, an engine, a host, the operating system."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            whose, _, what = called.rpartition(".")
            if called not in VALUES and (what in ACTS or whose.rpartition(".")[2] in ACTORS or called == "open"):
                yield called


def imports(tree: ast.Module) -> Iterator[str]:
    """The files of gpuprov that a module imports when it runs."""
    tests = [node for node in nodes_of(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for_types = {id(node) for test in tests for node in ast.walk(test)}
    for node in nodes_of(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in for_types:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            paths = [f"{name.replace('.', '/')}.py" for name in (node.module, *names)]
            yield from (path for path in paths if path in sources())


def test_what_is_called_pure_does_not_act_nor_import_what_acts() -> None:
    pure = {path for path, tree in sources().items() if re.search(r"\b[Pp]ure\b", ast.get_docstring(tree) or "")}
    assert {"gpuprov/cluster/plan.py", "gpuprov/cluster/ordered_node.py"} <= pure
    acting = {path for path, tree in sources().items() if any(acts(tree))}
    assert {"gpuprov/cluster/nodes.py", "gpuprov/cluster/networks.py", "gpuprov/drivers/forward_rules.py"} <= acting
    used = {path: acting & {path, *imports(sources()[path])} for path in pure}
    assert {path: found - ACTING.keys() for path, found in used.items() if found - ACTING.keys()} == {}
    assert ACTING.keys() == set(chain.from_iterable(used.values())), "no exception outlives its reason"


ROLES = ("gpuprov/roles/plain.py", "gpuprov/roles/slurm/", "gpuprov/roles/worker/")

RULES = {
    "roles are compared by roles alone": (compared_roles, dict.fromkeys(ROLES, "roles are what roles are")),
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


def test_the_decisions_name_who_may_look_at_this_machine() -> None:
    decided = (ROOT / "docs/decisions.md").read_text().partition("## A host is a value\n")[2].partition("\n## ")[0]
    named = {f"gpuprov/{path}" for path in re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", decided)}
    folders = tuple(path for path in named if path.endswith("/"))
    assert {place for place in LOOKING_BELOW if place not in named and not place.startswith(folders)} == set()
    assert named <= LOOKING_BELOW.keys()


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
        (absolute_looks, 'run(["dmesg", "--time-format=iso"])'),
        (absolute_looks, 'JOURNAL = ("journalctl", "--dmesg")'),
        (absolute_looks, "shutil.disk_usage(folder).free"),
        (absolute_looks, "measure = os.cpu_count"),
        (absolute_looks, "from os import cpu_count"),
        (acts, 'Path("x").read_text()'),
        (acts, 'self._driver.push("c000", files)'),
        (acts, "os.getpid()"),
        (looks_below, 'root / "proc/devices"'),
        (looks_below, 'root / f"dev/char/{major}"'),
    ],
)
def test_the_rules_see_what_they_are_about(find: Callable[[ast.Module], Iterator[str]], text: str) -> None:
    assert len(list(find(ast.parse(text)))) == 1
