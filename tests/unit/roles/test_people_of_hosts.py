"""The role people: what a host of lab.yml gets, and what it refuses."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.cluster.people_files import people_files
from gpuprov.shapes.base import changed
from gpuprov.spec.people import read_people
from tests.unit.spec.test_people import ANN, BOB, key

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from gpuprov.shapes.cluster_spec import PersonSpec

ROOT = Path(__file__).parents[3]
ACTION = ROOT / "roles/people/action_plugins/people_files.py"


@pytest.fixture(scope="module")
def action() -> ModuleType:
    spec = importlib.util.spec_from_file_location("people_files_action", ACTION)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_people_of_ansible_are_those_of_a_spec() -> None:
    told = [
        {"name": "ann", "uid": 10001, "keys": [key()], "account": "vision", "gpus": 2},
        {"name": "bob", "uid": 10002},
    ]
    assert read_people(told, Path("/")) == ((ANN, BOB), [])


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("ann", "people: is"),
        ([{"name": "ann"}], "people[0]: has no uid"),
        ([{"name": "ann", "uid": "10001"}], "people[0].uid"),
        ([{"name": "root", "uid": 10001}], "people[0].name: 'root' is an account or a group of the nodes"),
        ([{"name": "ann", "uid": 10001}, {"name": "bob", "uid": 10001}], "people[1].uid: 10001 is the number of"),
        ([{"name": "ann", "uid": 10001, "keys": ["hello"]}], "people[0].keys[0]: is not a public key"),
    ],
)
def test_what_is_wrong_is_told_before_a_host_is_changed(told: object, said: str) -> None:
    people, faults = read_people(told, Path("/"))
    assert people == ()
    assert any(said in fault for fault in faults), faults


def members(archive: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {member.name: member for member in tar.getmembers()}


def packed(action: ModuleType, people: Sequence[PersonSpec], homes: str = "/home") -> bytes:
    files = people_files(people, shared=False, login=True, homes=homes)
    archive: bytes = action.pack((*files, *action.own_files()))
    return archive


def test_a_host_gets_files_with_the_modes_that_nodes_have(action: ModuleType) -> None:
    archive = packed(action, (ANN, BOB), "/srv/shared/home")
    found = members(archive)
    assert archive == packed(action, (ANN, BOB), "/srv/shared/home")
    assert {name: member.mode for name, member in found.items() if member.mode != 0o644} == {
        "etc/gpuprov/people/keys": 0o600,
        "var/lib/extrausers/shadow": 0o640,
        "usr/lib/gpuprov/keys-of-person": 0o755,
        "usr/lib/gpuprov/settle-people": 0o755,
    }
    assert all(member.isfile() for member in found.values())
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        folders = tar.extractfile("etc/gpuprov/people/folders")
        assert folders
        assert folders.read().decode().splitlines() == [
            "0711 0 0 /srv/shared/home",
            "0700 10001 10001 /srv/shared/home/ann",
            "0700 10002 10002 /srv/shared/home/bob",
        ]


def checked(action: ModuleType, people: Sequence[PersonSpec]) -> dict[str, Any]:
    """What this machine, which is not changed, says of them."""
    argv = ["sh", "-c", action.SCRIPT.read_text(), "sh", "check"]
    done = subprocess.run(argv, input=packed(action, people), capture_output=True, check=False)
    told = {"rc": done.returncode, "stdout": done.stdout.decode(), "stderr": done.stderr.decode()}
    result: dict[str, Any] = action.judge(told)
    return result


def test_a_host_that_lacks_people_would_be_changed(action: ModuleType) -> None:
    assert checked(action, (BOB,)) == {"changed": True, "troubles": []}


def test_names_and_numbers_that_a_host_has_are_refused(action: ModuleType) -> None:
    taken = next(line.split(":") for line in Path("/etc/passwd").read_text().splitlines() if line.split(":")[2] != "0")
    result = checked(action, (changed(BOB, name=taken[0]), changed(ANN, uid=int(taken[2]))))
    assert result["failed"]
    assert f"passwd: {taken[0]} has number {taken[2]} on this host, and 10002 in the list" in result["msg"]
    assert "fix: give these people other names" in result["msg"]


@pytest.mark.parametrize(
    ("done", "said"),
    [
        ({"rc": 127, "stdout": "", "stderr": "sh: tar: not found"}, "tar: not found"),
        ({"rc": 0, "stdout": "", "stderr": ""}, "exit status 0 and no output"),
        ({"rc": 3, "stdout": "", "stderr": ""}, "exit status 3 and no output"),
    ],
)
def test_a_host_that_cannot_is_told(action: ModuleType, done: dict[str, Any], said: str) -> None:
    assert said in action.judge(done)["msg"]


def test_what_stays_somebody_elses_is_told(action: ModuleType) -> None:
    words = "trouble: /home/ann: belongs to 5:5 instead of 10001:10001\nchanged: yes\n"
    found = action.judge({"rc": 0, "stdout": words})
    assert found == {"changed": True, "troubles": ["/home/ann: belongs to 5:5 instead of 10001:10001"]}
