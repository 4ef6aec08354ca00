"""What every role and inventory of this repository owes its users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())
GTX_1080 = {"hoff", "norman", "hebb", "hinton", "pitts"}
VARIABLES = "inventories/lab/group_vars/lab.yml"
GTX_1080_TI = {"hawkins", "lecun", "bengio"}


class Vault(str):
    """What ansible-vault encrypted."""

    __slots__ = ()


class Loader(yaml.SafeLoader):
    """YAML with Ansible's tag for secrets."""


Loader.add_constructor("!vault", lambda _, node: Vault(node.value))


def load(path: str) -> Any:
    return yaml.load((ROOT / path).read_text(), Loader)


def test_the_roles_are_those_that_the_documents_name() -> None:
    assert ROLES == [
        "accounting",
        "base",
        "broker",
        "cuda",
        "host",
        "nfs",
        "people",
        "slurm",
        "smoke",
        "sssd",
        "work",
        "worker",
    ]


@pytest.mark.parametrize("role", ROLES)
def test_each_default_of_a_role_is_an_argument_with_a_description(role: str) -> None:
    specs = load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]
    options: dict[str, Any] = {}
    for spec in specs.values():
        assert spec["short_description"]
        options |= spec["options"]
    assert set(load(f"roles/{role}/defaults/main.yml")) <= set(options)
    assert all(option["description"] for option in options.values())
    assert all(name.startswith(f"{role}_") for name in options)


@pytest.mark.parametrize("role", ROLES)
def test_each_role_has_a_document_and_tasks_for_each_of_its_entries(role: str) -> None:
    folder = ROOT / "roles" / role
    assert (folder / "README.md").read_text().startswith(f"# {role}\n")
    for entry in load(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]:
        assert (folder / f"tasks/{entry}.yml").is_file()


def test_the_example_of_a_lab_has_eight_gpu_hosts_by_model_and_a_file_server() -> None:
    lab = load("inventories/lab/hosts.yml")["all"]["children"]["lab"]
    variables = load(VARIABLES)
    models = lab["children"]["gpu_hosts"]["children"]
    assert {name: set(group["hosts"]) for name, group in models.items()} == {
        "gtx1080": GTX_1080,
        "gtx1080ti": GTX_1080_TI,
    }
    assert set(lab["children"]["file_server"]["hosts"]) == {variables["nfs_server"]}
    assert {variables["slurm_controller"], variables["lab_broker"]} <= GTX_1080
    assert "worker_command" not in variables  # nothing is there yet that it could start


def test_no_inventory_has_a_secret_in_clear() -> None:
    secrets = load(VARIABLES)["worker_environment"]
    assert secrets
    assert all(
        isinstance(value, Vault) and value.startswith("$ANSIBLE_VAULT;1.1;AES256\n") for value in secrets.values()
    )
    for path in (ROOT / "inventories").rglob("*.yml"):
        for line in path.read_text().splitlines():
            assert "ssh_pass" not in line
            assert "become_pass" not in line


def test_a_task_asks_by_ansible_s_test_whether_another_one_has_finished() -> None:
    """The result has a number or a boolean, by Ansible's version, and newer ones take no number for an answer."""
    tasks = [task for path in (ROOT / "roles").glob("*/tasks/*.yml") for task in load(str(path)) or ()]
    waits = [task for task in tasks if "ansible.builtin.async_status" in task]
    assert waits
    assert [wait["until"] for wait in waits] == [f"{wait['register']} is finished" for wait in waits]
