"""Workers and their broker on hosts reached over ssh: the files that roles write are those that nodes have."""

from __future__ import annotations

import grp
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuprov.roles.worker.facts import BROKER, DEFINITIONS, GPUS, PORT
from gpuprov.roles.worker.files import broker_files, hash_password
from gpuprov.roles.worker.password import BROKER_FILE
from gpuprov.spec.shared_folder import ACCOUNT, ACCOUNT_UID, SHARED
from gpuwork.broker_file import read_broker

ROOT = Path(__file__).parents[3]
ROLES = ROOT / "roles"
PROGRAM = ROLES / "broker/files/write_secrets.py"
ADDRESS = "10.0.5.1"
GROUP = grp.getgrgid(0).gr_name
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="writes files of root's")


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def task_of(path: str, name: str) -> dict[str, Any]:
    (found,) = [task for task in load(path) if task["name"] == name]
    assert isinstance(found, dict)
    return found


def write_secrets(folder: Path, address: str = ADDRESS) -> str:
    template = (ROOT / "templates/worker/definitions.json.j2").read_text()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.read_text(), folder, address, GROUP],
        input=template.replace("{{ password_hash }}", "PASSWORD_HASH"),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.slow
@AS_ROOT
def test_the_password_is_made_once_and_only_what_is_wrong_is_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "gpuwork"
    assert write_secrets(folder) == "changed\n"
    password = (folder / "password").read_text().strip()
    assert len(password) == 64
    assert int(password, 16)
    assert modes(folder) == {"password": 0o600, "broker": 0o640, "definitions.json": 0o600}
    assert read_broker(folder / "broker") == f"amqp://gpuwork:{password}@{ADDRESS}/gpuwork"
    (user,) = json.loads((folder / "definitions.json").read_text())["users"]
    assert user["password_hash"] == hash_password(password.encode())
    assert write_secrets(folder) == ""
    assert write_secrets(folder, "10.0.5.2") == "changed\n"
    assert password in (folder / "broker").read_text()
    (folder / "definitions.json").chmod(0o644)
    (folder / "broker").unlink()
    assert write_secrets(folder) == "changed\n"
    assert modes(folder) == {"password": 0o600, "broker": 0o640, "definitions.json": 0o600}
    (folder / "password").write_text("short\n")
    assert write_secrets(folder) == "changed\n"
    assert password not in (folder / "broker").read_text()


def test_the_paths_and_numbers_are_those_of_nodes() -> None:
    assert Path(BROKER).parent == Path(DEFINITIONS).parent == Path(GPUS).parent == Path("/etc/gpuwork")
    assert {Path(BROKER_FILE.path).name, Path(DEFINITIONS).name} == {"broker", "definitions.json"}
    texts = {
        path: (ROOT / path).read_text() for path in ("roles/broker/tasks/serve.yml", "roles/worker/tasks/crew.yml")
    }
    assert f"port: {PORT}" in texts["roles/broker/tasks/serve.yml"]
    assert f"dest: {GPUS}" in texts["roles/worker/tasks/crew.yml"]
    assert load("roles/worker/defaults/main.yml")["worker_share"] == SHARED
    install = task_of("tasks/work.yml", "Install gpuwork")
    assert install["vars"] == {"work_uid": ACCOUNT_UID, "work_from_here": True}
    assert ACCOUNT in task_of("roles/broker/tasks/serve.yml", "Create the password")["ansible.builtin.command"]["argv"]


def test_what_has_the_password_in_it_is_never_logged_and_never_a_file_on_the_controller() -> None:
    tasks = load("roles/broker/tasks/host.yml")
    assert [task["name"] for task in tasks if task.get("no_log")] == [
        "Read the broker's URL",
        "Copy the broker's URL to the other hosts",
    ]
    assert not [task for task in tasks if {"ansible.builtin.copy", "ansible.builtin.template"} & task.keys()]
    program = PROGRAM.read_text()
    assert program.count("sys.stdout.write") == 1
    assert 'sys.stdout.write("changed\\n")' in program


@pytest.mark.slow
def test_the_configuration_of_the_broker_is_that_of_a_node(tmp_path: Path) -> None:
    variables = {"role_path": str(ROLES / "broker"), "broker_address": ADDRESS}
    copy = {"content": "{{ item.value }}", "dest": f"{tmp_path}/{{{{ item.key | basename }}}}", "mode": "0644"}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": variables}
    play |= {"vars_files": [str(ROLES / "broker/vars/main.yml")]}
    play |= {"tasks": [{"ansible.builtin.copy": copy, "loop": "{{ broker_configuration | dict2items }}"}]}
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", "localhost,", tmp_path / "play.yml"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    of_node = {file.path: file.content.decode() for file in broker_files(b"0" * 64, ADDRESS)}
    for name in ("rabbitmq.conf", "advanced.config"):
        assert (tmp_path / name).read_text() == of_node[f"/etc/rabbitmq/{name}"]
    environment = (tmp_path / "rabbitmq-env.conf").read_text()
    assert "RABBITMQ_HOME" not in environment  # an upgrade may move it
    assert "\nexport ERL_EPMD_ADDRESS=127.0.0.1\n" in environment
    assert environment.endswith('inet_dist_use_interface {127,0,0,1}"\n')


def test_a_folder_on_sshfs_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    cmd = task_of("roles/worker/tasks/crew.yml", "Prepare the folder for jobs")["ansible.builtin.shell"]["cmd"]
    (tmp_path / "findmnt").write_text("#!/bin/sh\necho fuse.sshfs\n")
    (tmp_path / "runuser").write_text(f"#!/bin/sh\ntouch {tmp_path}/run\n")
    for name in ("findmnt", "runuser"):
        (tmp_path / name).chmod(0o755)
    folder = tmp_path / "drive/work"
    done = subprocess.run(
        ["/bin/sh", "-c", cmd],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "folder": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == f"{folder} is on sshfs, where a lock of one host is not seen by the others\n"
    assert not folder.exists()
    assert not (tmp_path / "run").exists()
