"""The role work: one number for the account everywhere, and gpuwork where every python3 finds it."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuprov.roles.registry import ROLES
from gpuprov.spec.shared_folder import ACCOUNT, ACCOUNT_UID, SHARED

ANSIBLE = Path(__file__).parents[3] / "roles"
ROLE = ANSIBLE / "work"
PEOPLE = range(1000, 60_000)  # of Debian; people get numbers from the lower end
MANY_PEOPLE = 50_000


def load(path: str) -> Any:
    return yaml.safe_load((ROLE / path).read_text())


@pytest.mark.parametrize("init", ["systemd", "runit"])
def test_the_number_of_the_account_is_gpuprov_s_with_every_init(init: Any) -> None:
    recipe = ROLES["slurm"].recipe
    assert recipe.variables(init)["work"] == {"work_uid": ACCOUNT_UID}
    assert "work_uid" not in load("defaults/main.yml")
    text = "".join(path.read_text() for path in ROLE.rglob("*.yml"))
    assert str(ACCOUNT_UID) not in text
    assert load("meta/argument_specs.yml")["argument_specs"]["main"]["options"]["work_uid"]["required"] is True


def test_no_package_and_hardly_anybody_has_that_number() -> None:
    assert ACCOUNT_UID in PEOPLE
    assert ACCOUNT_UID - PEOPLE.start > MANY_PEOPLE


def test_user_and_group_have_the_name_the_number_and_a_login_shell() -> None:
    tasks = {next(iter(task.keys() - {"name", "vars", "tags"})): task for task in load("tasks/main.yml")}
    group, user = tasks["ansible.builtin.group"]["ansible.builtin.group"], tasks["ansible.builtin.user"]
    assert group == {"name": ACCOUNT, "gid": "{{ work_uid }}"}
    account = user["ansible.builtin.user"]
    assert {account["name"], account["group"]} == {ACCOUNT}
    assert (account["uid"], account["home"], account["shell"]) == ("{{ work_uid }}", "/home/work", "/bin/bash")
    assert "password" not in account


def test_gpuwork_looks_for_jobs_in_the_folder_that_nodes_share() -> None:
    program = ANSIBLE.parent / "gpuwork"
    places = {found for path in program.rglob("*.py") for found in re.findall(r'"(/shared[^"]*)"', path.read_text())}
    assert places
    assert {place.split("/")[1] for place in places} == {SHARED[1:]}


def install(tmp_path: Path, *options: str) -> bool:
    """Apply the part of the role that copies the package; whether it changed something, or would have."""
    variables = {"package_source": str(tmp_path / "source"), "package_target": str(tmp_path / "in/target")}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": variables}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([{**play, "tasks": load("tasks/package.yml")}]))
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", *options, tmp_path / "play.yml"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return "changed=1" in done.stdout


@pytest.mark.slow
def test_the_package_is_copied_once_and_again_when_it_changes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "in/target"
    source.mkdir()
    (source / "one.py").write_text("FIRST = 1\n")
    (source / "one.py").chmod(0o600)
    assert install(tmp_path, "--check")
    assert not target.exists()
    assert install(tmp_path)
    assert stat.S_IMODE((target / "one.py").stat().st_mode) == 0o644
    assert (target / "__pycache__").is_dir()
    assert not install(tmp_path)
    (source / "two.py").write_text("SECOND = 2\n")
    (target / "left.py").write_text("")
    assert install(tmp_path)
    assert sorted(path.name for path in target.glob("*.py")) == ["one.py", "two.py"]
    assert subprocess.run([sys.executable, "-c", "import two"], cwd=target, check=False).returncode == 0
