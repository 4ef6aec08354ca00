"""The list of roles is the registry of roles; whoever cannot import it has the same list."""

from __future__ import annotations

import json
import re
from importlib import import_module, resources
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpuprov.cluster.plugins.module_utils import serve
from gpuprov.core.errors import UsageError
from gpuprov.roles.base import Role
from gpuprov.roles.registry import ROLE_NAMES, ROLES, check_spec, role_of, roles_of
from gpuprov.shapes.cluster_spec import ClusterSpec, NodesSpec
from gpuprov.spec.spec_error import SpecError

ROOT = Path(__file__).parents[3]
MODULES = "ansible_collections.gpuprov.cluster.plugins.modules"


def test_each_role_stands_under_its_name() -> None:
    assert ROLE_NAMES == tuple(ROLES) == tuple(role.name for role in ROLES.values())
    assert all(isinstance(role, Role) and role.title for role in ROLES.values())


def test_each_role_has_its_role_of_ansible() -> None:
    for role in ROLES.values():
        assert all((ROOT / "roles" / name).is_dir() for name in role.recipe.roles)


def test_ansible_s_literals_are_the_same_list() -> None:
    assert tuple(serve.ROLE["choices"]) == ROLE_NAMES
    named = 0
    for name in ("cluster", "image", "node"):
        option = yaml.safe_load(import_module(f"{MODULES}.{name}").DOCUMENTATION)["options"]["role"]
        assert tuple(option["choices"]) == ROLE_NAMES
        named += 1
    assert named == 3


def test_requirements_and_pages_name_them_all() -> None:
    needs = json.loads(resources.files("gpuprov.core").joinpath("requirements.json").read_text())
    assert set(ROLE_NAMES) <= set(needs["roles"])
    row = re.search(r"^\| `nodes.role` \|.*$", (ROOT / "docs/spec.md").read_text(), re.MULTILINE)
    assert row
    assert row[0].split("|")[3].strip() == ", ".join(f"`{role}`" for role in ROLE_NAMES)
    example = re.search(r"^  role: .*# (.*)$", (ROOT / "examples/lab.yaml").read_text(), re.MULTILINE)
    assert example
    assert tuple(part.partition(":")[0] for part in example[1].split("; ")) == ROLE_NAMES
    groups = (ROOT / "docs/ansible.md").read_text()
    assert ", ".join(f"`role_{role}`" for role in ROLE_NAMES) in groups


@pytest.mark.parametrize("role", ["host", "nfs", "broker", "cuda", "", "Slurm", "job"])
def test_what_is_no_role_is_no_role(role: str) -> None:
    with pytest.raises(UsageError) as refused:
        role_of(role)
    assert refused.value.evidence == f"roles: {', '.join(ROLE_NAMES)}"
    with pytest.raises(SpecError) as wrong:
        check_spec(ClusterSpec(nodes=NodesSpec(role=role)))
    assert all(known in str(wrong.value.evidence) for known in ROLE_NAMES)
    assert roles_of([role]) == ()
