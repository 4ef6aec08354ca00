"""To whom a folder of the host must belong, by what engines say of themselves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.core.errors import EngineError
from gpuprov.drivers.docker.owners import get_mapped_owner
from gpuprov.drivers.lxd.driver import LxdDriver
from gpuprov.drivers.lxd.owners import find_in_instances, find_in_subuid, owner_without_shift, parse_id_map
from tests.fakes.driver import FakeDriver
from tests.fakes.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

UID = 4711
GROUPS = {"Isuid": False, "Isgid": True, "Hostid": 7_000_000, "Nsid": 0, "Maprange": 65536}
USERS = {"Isuid": True, "Isgid": False, "Hostid": 1_000_000, "Nsid": 0, "Maprange": 65536}
MAP = json.dumps([GROUPS, USERS])


class QuietLxd:
    """An LXD that says what it can, and which instances it has."""

    engine = command = "lxd"
    member = ""

    def __init__(self, *configs: dict[str, str]) -> None:
        self.documents = [{"config": config} for config in configs]

    def get(self, *path: str, recursion: int) -> list[dict[str, Any]]:
        assert (path, recursion) == (("instances",), 1)
        return self.documents


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        (MAP, 1_004_711),
        (json.dumps([{**USERS, "Isgid": True}]), 1_004_711),
        (json.dumps([{**USERS, "Maprange": 1000}, {**USERS, "Nsid": 1000, "Hostid": 5000}]), 8711),
        (json.dumps([{**USERS, "Maprange": 4711}]), None),
        (json.dumps([GROUPS]), None),
        (json.dumps([{**USERS, "Hostid": "1000000"}]), None),
        (json.dumps({"Isuid": True}), None),
        (json.dumps([7]), None),
        ("[", None),
        ("", None),
        (None, None),
    ],
)
def test_an_id_map_leads_a_user_to_one_of_the_host(text: str | None, owner: int | None) -> None:
    assert parse_id_map(text, UID) == owner


def test_only_instances_with_the_engine_s_own_map_tell_it() -> None:
    strange = [
        {"volatile.idmap.next": MAP, "security.privileged": "true"},
        {"volatile.idmap.next": MAP, "security.idmap.isolated": "true"},
        {"volatile.idmap.next": MAP, "volatile.idmap.base": "1065536"},
        {"volatile.idmap.next": "[]"},
    ]
    assert find_in_instances(UID, [{"config": config} for config in strange]) is None
    telling = {"volatile.idmap.base": "0", "volatile.last_state.idmap": MAP}
    assert find_in_instances(UID, [{"config": config} for config in [*strange, telling]]) == 1_004_711


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("alice:100000:65536\nroot:1000000:65536\n", 1_004_711),
        ("0:1000000:1000000000\n", 1_004_711),
        ("root:1000000:65536\nroot:2000000:65536\n", None),
        ("root:1000000:4000\n", None),
        ("root:1000000:many\n", None),
        ("alice:100000:65536\n", None),
        ("", None),
    ],
)
def test_root_s_only_range_of_subordinate_ids_tells_it_too(text: str, owner: int | None) -> None:
    assert find_in_subuid(UID, text) == owner


def test_the_id_map_of_the_nodes_tells_a_user_of_the_host() -> None:
    told = LxdDriver(cast("Any", QuietLxd({"volatile.idmap.next": MAP})), name="lxd")
    assert told.owner_on_host(UID) == 1_004_711


def test_an_engine_that_does_not_tell_is_an_error_in_three_parts(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="4711") as caught:
        owner_without_shift(cast("Any", QuietLxd()), UID, root=tmp_path)
    assert "gpuprov image build --engine lxd" in caught.value.fix
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/subuid").write_text("root:300000:65536\n")
    assert owner_without_shift(cast("Any", QuietLxd()), UID, root=tmp_path) == 304_711


def test_docker_s_users_are_the_host_s_unless_they_are_remapped() -> None:
    plain = {"SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"], "DockerRootDir": "/var/lib/docker"}
    assert get_mapped_owner(plain, UID) == UID
    assert get_mapped_owner({}, UID) == UID
    remapped = {"SecurityOptions": ["name=userns"], "DockerRootDir": "/var/lib/docker/165536.165536"}
    assert get_mapped_owner(remapped, UID) == 170_247


@pytest.mark.parametrize(
    "info",
    [
        {"SecurityOptions": ["name=userns"], "DockerRootDir": "/var/lib/docker"},
        {"SecurityOptions": ["name=seccomp", "name=rootless"], "DockerRootDir": "/home/a/1000.1000"},
    ],
)
def test_a_docker_that_does_not_tell_is_an_error_in_three_parts(info: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match="4711") as caught:
        get_mapped_owner(info, UID)
    assert caught.value.evidence.startswith("security options: name=")
    assert "docker info" in caught.value.fix


def test_the_fake_engine_tells_it_as_its_test_says() -> None:
    engine = FakeEngine(first_user=1_000_000)
    assert FakeDriver(engine).owner_on_host(UID) == 1_004_711
    engine.first_user = None
    with pytest.raises(EngineError):
        FakeDriver(engine).owner_on_host(UID)
