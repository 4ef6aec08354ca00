"""`host prepare --engine incus` beside an Incus of these tests' own, which answers on a socket as the real one does."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.reporter import Silent
from gpuprov.lifecycle.prepare_host import translate_failure
from gpuprov.provision.playbook import Play, RoleUse, TaskFailed, run_play
from gpuprov.provision.targets import Target
from tests.unit.roles.test_host_undo import POOLS, engine, folder  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [
    pytest.mark.slow,
    # ansible-runner's pexpect forks from a process that may have threads
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ROLES = Path(__file__).parents[3] / "roles"
PREPARE = """---
- name: Gather the state of the host
  ansible.builtin.include_tasks: facts.yml
- name: Be on a distribution of the test's choice
  ansible.builtin.set_fact:
    ansible_facts: "{{ ansible_facts | combine({'distribution': wanted, 'distribution_major_version': '13'}) }}"
- name: Prepare the engine
  ansible.builtin.include_tasks: lxd.yml
"""
# Has every package but those of Incus; apt-get writes down what it is asked for.
DPKG_QUERY = """#!/bin/sh
for word in "$@"; do
    case "$word" in
        -*|*"{"*) ;;
        incus*) [ ! -e "$0.incus" ] || echo "$word installed" ;;
        *) echo "$word installed" ;;
    esac
done
"""
VERSION = {"metadata": {"environment": {"server_version": "6.0.4"}}}
POOL = {"metadata": [{"name": "default", "driver": "dir", "config": {}, "status": "Created", "used_by": []}]}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "programs"
    found.mkdir()
    (found / "dpkg-query").write_text(DPKG_QUERY)
    (found / "dpkg-query").chmod(0o755)
    monkeypatch.setenv("PATH", f"{found}{os.pathsep}{os.environ['PATH']}")
    return found


def prepare(tmp_path: Path, socket: Path, distribution: str, **more: object) -> Sequence[str]:
    roles = tmp_path / "roles"
    shutil.copytree(ROLES / "host", roles / "host")
    shutil.copytree(ROLES / "base", roles / "base")
    (roles / "host/tasks/main.yml").write_text(PREPARE)
    variables = {
        "host_engine": "incus",
        "host_lxd_dir": str(socket),
        "host_run_dir": str(socket),
        "wanted": distribution,
        **more,
    }
    play = Play(roles=(RoleUse(name="host", variables=variables),), targets=(Target(),), roles_path=roles, silence_s=60)
    return run_play(play, reporter=Silent()).changed


def refused(tmp_path: Path, socket: Path, distribution: str, **more: object) -> HostNotReady:
    with pytest.raises(TaskFailed) as caught:
        prepare(tmp_path, socket, distribution, **more)
    error = translate_failure(caught.value)
    assert isinstance(error, HostNotReady), error
    return error


@pytest.mark.sampled(4)
@pytest.mark.parametrize("packaged", [False, True])
@pytest.mark.parametrize("distribution", ["Debian", "Ubuntu"])
def test_an_incus_that_responds_is_used_as_it_is(
    tmp_path: Path,
    folder: Path,  # noqa: F811
    programs: Path,
    distribution: str,
    packaged: bool,
) -> None:
    if packaged:
        (programs / "dpkg-query.incus").touch()
    with engine(folder, {POOLS: POOL, "/1.0": VERSION}):
        assert prepare(tmp_path, folder, distribution) == ()


@pytest.mark.usefixtures("programs")
def test_where_there_is_no_package_incus_has_to_be_there(tmp_path: Path, folder: Path) -> None:  # noqa: F811
    error = refused(tmp_path, folder, "Ubuntu")
    assert error.what == "requirement not met: an Incus that responds, or Debian's packages"
    assert "gpuprov host prepare --engine incus" in error.fix


def test_an_incus_that_is_too_old_is_refused_with_its_version(tmp_path: Path, folder: Path, programs: Path) -> None:  # noqa: F811
    (programs / "dpkg-query.incus").touch()
    old = json.loads(json.dumps(VERSION).replace("6.0.4", "0.7"))
    with engine(folder, {POOLS: POOL, "/1.0": old}):
        error = refused(tmp_path, folder, "Debian")
    assert error.what == "requirement not met: a supported version of the engine"
    assert error.evidence == "this is Incus 0.7\nthe oldest supported version is 6.0"
    assert error.fix == "upgrade Incus, then: gpuprov host prepare --engine incus"


CLUSTERED = {"metadata": {"environment": {"server_version": "6.0.4", "server_clustered": True, "server_name": "m1"}}}
MEMBERS = {"metadata": ["/1.0/cluster/members/m1", "/1.0/cluster/members/m2"]}


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("pools", "more", "usable"),
    [
        ({"metadata": []}, {}, "none"),
        (json.loads(json.dumps(POOL).replace("Created", "Pending")), {}, "none"),
        (POOL, {"host_pool_size_gib": 9}, "default"),
        (POOL, {}, None),
    ],
    ids=["no pool", "a pool that is not made", "a pool is asked for", "a pool"],
)
def test_in_an_engine_s_cluster_a_pool_is_used_and_none_is_made(
    tmp_path: Path,
    folder: Path,  # noqa: F811
    pools: object,
    more: dict[str, object],
    usable: str | None,
) -> None:
    create = "incus storage create gpuprov btrfs"
    with engine(folder, {POOLS: pools, "/1.0": CLUSTERED, "/1.0/cluster/members": MEMBERS}) as server:
        if usable is None:
            assert prepare(tmp_path, folder, "Ubuntu") == ()
        else:
            error = refused(tmp_path, folder, "Ubuntu", **more)
            assert error.what == "requirement not met: a storage pool for nodes in the engine's cluster"
            assert error.evidence.endswith(f"pools that can be used: {usable}")
            assert error.fix == f"{create} --target m1; {create} --target m2; {create}"
    assert (server.created, server.deleted) == ([], [])
