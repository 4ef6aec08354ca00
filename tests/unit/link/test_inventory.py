from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.link.address import RemoteMachine
from gpuprov.link.hosts_file import (
    forget_machine,
    get_machine,
    read_machines,
    remember_machine,
    resolve_machine,
)

HOFF = RemoteMachine(
    name="hoff", address="192.0.2.11", user="root", port=2222, identity_file="~/.ssh/lab", proxy_jump="gate"
)
HINTON = RemoteMachine(name="hinton", address="hinton")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config/hosts.yml"


def test_a_host_is_remembered_once_and_forgotten_once(path: Path) -> None:
    assert read_machines(path) == {}
    assert remember_machine(path, HOFF)
    assert remember_machine(path, HINTON)
    before = path.read_bytes()
    assert not remember_machine(path, HOFF)
    assert path.read_bytes() == before
    assert read_machines(path) == {"hoff": HOFF, "hinton": HINTON}
    assert forget_machine(path, "hoff")
    assert not forget_machine(path, "hoff")
    assert read_machines(path) == {"hinton": HINTON}
    assert [entry.name for entry in path.parent.iterdir()] == ["hosts.yml"]


def test_variables_of_the_user_and_other_groups_stay(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(
        "all:\n  vars: {ansible_user: root}\n  children:\n    file_server: {hosts: {depot: {nfs: 1}}}\n"
        "    lab: {children: {gpu_hosts: {hosts: {hoff: {ansible_host: old, rack: 7}}}}}\n"
    )
    assert read_machines(path)["hoff"] == RemoteMachine(name="hoff", address="old", user="root")
    remember_machine(path, HOFF)
    assert read_machines(path) == {
        "depot": RemoteMachine(name="depot", address="depot", user="root"),
        "hoff": HOFF,
    }
    assert "rack: 7" in path.read_text()
    assert "nfs: 1" in path.read_text()


@pytest.mark.slow
def test_ansible_reads_it_as_we_do(path: Path) -> None:
    remember_machine(path, HOFF)
    remember_machine(path, HINTON)
    program = Path(sys.executable).with_name("ansible-inventory")
    done = subprocess.run([program, "-i", path, "--list"], capture_output=True, text=True, check=True, cwd=path.parent)
    told = json.loads(done.stdout)
    assert told["gpu_hosts"]["hosts"] == ["hoff", "hinton"]
    assert told["lab"]["children"] == ["gpu_hosts"]
    assert told["_meta"]["hostvars"]["hoff"] == {
        "ansible_host": "192.0.2.11",
        "ansible_user": "root",
        "ansible_port": 2222,
        "ansible_ssh_private_key_file": "~/.ssh/lab",
        "ansible_ssh_common_args": "-o ProxyJump=gate",
    }


def test_a_name_stands_for_what_is_known_and_what_is_given_comes_first(path: Path) -> None:
    assert resolve_machine(path, "hoff", user=None) == RemoteMachine(name="hoff", address="hoff")
    remember_machine(path, HOFF)
    assert resolve_machine(path, "hoff", user=None) == HOFF
    assert resolve_machine(path, "hoff", user="alice", port=22) == replace(HOFF, user="alice", port=22)
    with pytest.raises(UsageError, match="'hoff' is not a valid host"):
        resolve_machine(path, "hoff", address="a b")


@pytest.mark.parametrize(
    "content",
    [
        "all: [",
        "- a",
        "all: 7",
        "all: {hosts: [hoff]}",
        "all: {hosts: {hoff: {ansible_port: ssh}}}",
        "all: {hosts: {hoff: {ansible_host: '-oProxyCommand=id'}}}",
        "all: {hosts: {hoff: {ansible_user: 'a b'}}}",
        "all: {hosts: {Hoff_1: {}}}",
        "\x00",
    ],
)
def test_what_is_none_is_refused_with_its_path(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        read_machines(path)
    assert caught.value.exit_code == 2
    assert caught.value.fix


def test_an_unknown_host_is_told_which_there_are(path: Path) -> None:
    remember_machine(path, HINTON)
    with pytest.raises(UsageError) as caught:
        get_machine(path, "hoff")
    assert "hinton" in caught.value.evidence
    assert caught.value.fix == "gpuprov host add hoff --address ADDRESS"
