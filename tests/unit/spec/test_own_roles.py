from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpuprov.assets import get_asset
from gpuprov.spec import own_roles
from gpuprov.spec.own_roles import find_role_problem, list_role_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def role(tmp_path: Path) -> Path:
    folder = tmp_path / "motd"
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks/main.yml").write_text("[]\n")
    return folder


def test_a_folder_with_tasks_is_a_role(role: Path) -> None:
    assert find_role_problem(role) == ""
    (role / "tasks/main.yml").rename(role / "tasks/main.yaml")
    assert find_role_problem(role) == ""
    link = role.with_name("linked")
    link.symlink_to(role)
    assert find_role_problem(link) == ""


def test_what_is_no_role_is_told(role: Path, tmp_path: Path) -> None:
    assert find_role_problem(tmp_path / "absent") == "does not exist on the host"
    (tmp_path / "file").touch()
    assert find_role_problem(tmp_path / "file") == "has no tasks/main.yml"
    (role / "tasks/main.yml").unlink()
    assert find_role_problem(role) == "has no tasks/main.yml"


def test_no_role_has_the_name_of_one_of_gpuprov_s(tmp_path: Path) -> None:
    names = [folder.name for folder in get_asset("roles").iterdir() if folder.is_dir()]
    assert {"base", "cuda", "slurm", "work", "worker"} <= set(names)
    for name in names:
        assert find_role_problem(tmp_path / name) == f"has the name of gpuprov's own role {name}"


@pytest.mark.parametrize("name", ["a b", "1", "-x", "{{ x }}", "a.b.c", "x" * 41, "a:b", "rôle"])
def test_a_name_that_ansible_would_not_find_is_refused(role: Path, name: str) -> None:
    assert "has a name that Ansible does not take" in find_role_problem(role.rename(role.with_name(name)))


@pytest.mark.parametrize("name", ["Motd", "geerlingguy.docker", "my-role_2"])
def test_names_of_roles_from_galaxy_are_taken(role: Path, name: str) -> None:
    assert find_role_problem(role.rename(role.with_name(name))) == ""


def test_what_git_and_python_keep_does_not_count(role: Path) -> None:
    for name in (".git", "library/__pycache__"):
        (role / name).mkdir(parents=True)
        (role / name / "x").write_text("x")
    (role / "README.md").touch()
    assert [str(path.relative_to(role)) for path in list_role_files(role)] == ["README.md", "tasks/main.yml"]


@pytest.mark.parametrize("target", ["/etc/hosts", "../other", "absent", "../../..", "loop"])
def test_a_link_that_leads_out_is_refused(role: Path, target: str) -> None:
    (role.parent / "other").mkdir()
    (role / "loop").symlink_to(target)
    assert find_role_problem(role) == "contains the symbolic link 'loop', which leads out of it"


def test_a_link_inside_is_taken(role: Path) -> None:
    (role / "tasks/debian.yml").symlink_to("main.yml")
    (role / "more").symlink_to("tasks")
    assert find_role_problem(role) == ""


def test_a_pipe_is_refused(role: Path) -> None:
    os.mkfifo(role / "pipe")
    assert find_role_problem(role) == "contains 'pipe', which is neither a file nor a folder"


def test_it_has_a_size(role: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (role / "large").open("wb") as file:
        file.truncate(64 * 1024**2 - 3)
    assert find_role_problem(role) == ""
    with (role / "large").open("wb") as file:
        file.truncate(64 * 1024**2)
    assert find_role_problem(role) == "contains more than 64 MiB"
    (role / "large").unlink()
    monkeypatch.setattr(own_roles, "_FILES_MAX", 3)
    for number in range(2):
        (role / str(number)).touch()
    assert find_role_problem(role) == ""
    (role / "last").touch()
    assert find_role_problem(role) == "contains more than 3 files"
