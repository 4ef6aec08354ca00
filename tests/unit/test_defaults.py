"""What holds where nothing is said is written once in Python; the literals that Ansible needs say the same."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest
import yaml

from gpuprov.core.names import BRIDGES
from gpuprov.core.units import GIB, MIB
from gpuprov.lifecycle.prepare_host import HostOrder
from gpuprov.roles.slurm.facts import ready_states, slurm_facts
from gpuprov.shapes.choices import DEFAULT_BRIDGE, DEFAULT_CLUSTER, DEFAULT_PRIVATE_BRIDGE
from gpuprov.shapes.cluster_spec import ImageSpec, NodesSpec
from gpuprov.spec.suites import SUITES
from tests.sources import nodes_of, parsed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MODULES = "ansible_collections/gpuprov/cluster/plugins/modules"
MANY = 3  # states in one list, which is then one of those in which a node takes jobs
DEFAULTS = (DEFAULT_BRIDGE, DEFAULT_CLUSTER, DEFAULT_PRIVATE_BRIDGE)


@pytest.mark.parametrize("name", ["node", "verify"])
def test_the_modules_of_ansible_mean_the_same_cluster(name: str) -> None:
    module = import_module(f"{MODULES.replace('/', '.')}.{name}")
    assert module.ARGUMENTS["cluster"]["default"] == DEFAULT_CLUSTER
    assert yaml.safe_load(module.DOCUMENTATION)["options"]["cluster"]["default"] == DEFAULT_CLUSTER


def test_the_documented_default_of_the_module_cluster_is_the_same() -> None:
    module = import_module(f"{MODULES.replace('/', '.')}.cluster")
    text = yaml.safe_load(module.DOCUMENTATION)["options"]["name"]["description"]
    assert re.findall(r"V\((\w+)\)", text) == [DEFAULT_CLUSTER]


def test_the_module_image_builds_what_a_spec_that_says_nothing_has() -> None:
    module = import_module(f"{MODULES.replace('/', '.')}.image")
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    for option, default in (("role", NodesSpec().role), ("base", ImageSpec().base)):
        assert module.ARGUMENTS[option]["default"] == documented[option]["default"] == default


def test_no_suite_and_no_role_is_named_twice() -> None:
    homes: dict[str, set[str]] = {name: set() for name in (*SUITES, NodesSpec().role)}
    for path in sorted((ROOT / "gpuprov").rglob("*.py")):
        for node in nodes_of(parsed(path)):
            if isinstance(node, ast.Constant) and node.value in homes:
                homes[node.value].add(str(path.relative_to(ROOT / "gpuprov")))
    usual = {"shapes/cluster_spec.py"}  # what a spec that says nothing has
    assert homes.pop(ImageSpec().base) == {"spec/suites.py", *usual}
    # The role has the name of its key in documents and specs, of its checks' layer and fact, and of a folder.
    words = {f"roles/slurm/{name}.py" for name in ("facts", "checks", "questions", "words")} | {"shapes/nodes.py"}
    words |= {"shapes/job_run.py", "spec/serialize.py"}
    assert homes.pop(NodesSpec().role) <= usual | words
    assert set(map(frozenset, homes.values())) == {frozenset({"spec/suites.py"})}


def test_the_role_that_prepares_a_host_means_the_same_bridge() -> None:
    defaults = yaml.safe_load((ROOT / "roles/host/defaults/main.yml").read_text())
    assert defaults["host_bridges"] == [f"{BRIDGES}+"]
    assert defaults["host_bridges"] == list(HostOrder(roles_path=ROOT).bridges)
    assert DEFAULT_BRIDGE.startswith(BRIDGES)


def test_no_default_name_and_no_unit_stands_twice() -> None:
    found = []
    for path in sorted(chain.from_iterable((ROOT / folder).rglob("*.py") for folder in ("gpuprov", "gpuwork"))):
        for node in nodes_of(parsed(path)):
            value = node.value if isinstance(node, ast.Constant) else None
            if (isinstance(value, str) and value in DEFAULTS) or is_unit(node):
                found.append(str(path.relative_to(ROOT)))
    units = ["gpuprov/core/units.py", "gpuprov/shapes/limits.py"] * 2  # core is sent to hosts without the shapes
    assert sorted(found) == sorted([*["gpuprov/shapes/choices.py"] * 3, *units])


def is_unit(node: ast.AST) -> bool:
    """Whether it is a MiB or a GiB, written out, as a power or as a product."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int and node.value in (MIB, GIB)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and is_kib(node.right):
        return is_kib(node.left) or (isinstance(node.left, ast.BinOp) and is_kib(node.left.right))
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Pow, ast.LShift)):
        return False
    match node.left, node.right:
        case ast.Constant(value=int(base)), ast.Constant(value=int(power)):
            return (base**power if isinstance(node.op, ast.Pow) else base << power) in (MIB, GIB)
    return False


def is_kib(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1024


def test_gpuprov_spells_no_list_of_states_of_slurm_and_no_factor() -> None:
    """The facts of the role slurm have them: tests/unit/roles/test_slurm_facts.py."""
    found = []
    for path in sorted((ROOT / "gpuprov").rglob("*.py")):
        for node in nodes_of(parsed(path)):
            if isinstance(node, (ast.Tuple, ast.List, ast.Set)) and len(states_in(node) & ready_states()) >= MANY:
                found.append(f"{path.name}: {ast.unparse(node)}")
            if "slurm" in path.parts and isinstance(node, ast.Constant) and node.value == slurm_facts()["memory_share"]:
                found.append(f"{path.name}: {ast.unparse(node)}")
    assert found == []


def states_in(node: ast.Tuple | ast.List | ast.Set) -> set[str]:
    """The words of a list, as Slurm's commands write them in lower case."""
    return {part.value.lower() for part in node.elts if isinstance(part, ast.Constant) and isinstance(part.value, str)}


@pytest.mark.parametrize("text", ["1024**2", "1 << 30", "2**20", "1073741824", "1024 * 1024", "8 * 1024 * 1024"])
def test_a_unit_is_seen_however_it_is_written(text: str) -> None:
    assert is_unit(ast.parse(text, mode="eval").body)
