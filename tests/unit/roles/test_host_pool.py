"""The pool that `host prepare` creates, in an LXD of these tests' own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.reporter import Silent
from gpuprov.lifecycle.prepare_host import translate_failure
from gpuprov.provision.playbook import Play, RoleUse, TaskFailed, run_play
from gpuprov.provision.targets import Target
from tests.unit.roles.test_host_undo import engine, folder  # noqa: F401 - a fixture

pytestmark = [
    pytest.mark.slow,
    # ansible-runner's pexpect forks from a process that may have threads
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
ROLES = Path(__file__).parents[3] / "roles"
GIB = 1024**3
# Packages are installed between the first check and the pool.
TASKS = """---
- name: Be an engine without pools
  ansible.builtin.set_fact:
    host_pools: {status: 200, json: {metadata: []}}
- name: Check the free disk space
  ansible.builtin.include_tasks: room.yml
  when: not wanted_engine_ran_before
- name: Create a pool with copy-on-write
  ansible.builtin.include_tasks: pool.yml
"""
DF = """#!/bin/sh
echo Avail
if [ -e "$0.asked" ]; then echo {later}; else echo {first}; fi
touch "$0.asked"
"""


def create_pool(
    tmp_path: Path,
    socket: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    free_gib: tuple[float, float],
    ran_before: bool,
    size_gib: int = 0,
) -> None:
    roles, programs = tmp_path / "roles", tmp_path / "programs"
    shutil.copytree(ROLES / "host", roles / "host")
    (roles / "host/tasks/main.yml").write_text(TASKS)
    programs.mkdir()
    first, later = (int(gib * GIB) for gib in free_gib)
    (programs / "df").write_text(DF.format(first=first, later=later))
    (programs / "df").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    variables = {"host_engine": "lxd", "host_lxd_dir": str(socket), "wanted_engine_ran_before": ran_before}
    variables |= {"host_pool_size_gib": size_gib} if size_gib else {}
    play = Play(roles=(RoleUse(name="host", variables=variables),), targets=(Target(),), roles_path=roles)
    try:
        run_play(play, reporter=Silent())
    except TaskFailed as failed:
        raise translate_failure(failed) from failed


def test_seven_gib_suffice_although_packages_take_some_of_them(
    tmp_path: Path,
    folder: Path,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with engine(folder, {}) as server:
        create_pool(tmp_path, folder, monkeypatch, free_gib=(7.0, 6.2), ran_before=False)
    assert [made["config"]["size"] for made in server.created] == ["5GiB"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("free_gib", [4.0, 6.9])
@pytest.mark.parametrize("ran_before", [False, True])
def test_less_is_refused_before_anything_is_made(
    tmp_path: Path,
    folder: Path,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
    *,
    ran_before: bool,
    free_gib: float,
) -> None:
    with engine(folder, {}) as server, pytest.raises(HostNotReady, match="enough disk space for the pool") as caught:
        create_pool(tmp_path, folder, monkeypatch, free_gib=(free_gib, free_gib), ran_before=ran_before)
    assert f"{free_gib:.1f} GiB" in caught.value.evidence
    assert server.created == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("free_gib", "size_gib", "made_gib"), [(27.3, 0, 23), (500.0, 0, 100), (27.3, 25, 25)])
def test_the_size_follows_the_room_unless_it_is_said(
    tmp_path: Path,
    folder: Path,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
    free_gib: float,
    size_gib: int,
    made_gib: int,
) -> None:
    with engine(folder, {}) as server:
        free = (free_gib, free_gib)
        create_pool(tmp_path, folder, monkeypatch, free_gib=free, ran_before=True, size_gib=size_gib)
    assert [made["config"]["size"] for made in server.created] == [f"{made_gib}GiB"]


def test_a_size_for_which_there_is_no_room_is_refused_with_a_smaller_one_as_the_way_out(
    tmp_path: Path,
    folder: Path,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with engine(folder, {}) as server, pytest.raises(HostNotReady) as caught:
        create_pool(tmp_path, folder, monkeypatch, free_gib=(27.3, 27.3), ran_before=True, size_gib=26)
    assert "27.3 GiB free, 28 GiB needed" in caught.value.evidence
    assert caught.value.fix.startswith("choose a smaller pool: gpuprov host prepare")
    assert server.created == []
