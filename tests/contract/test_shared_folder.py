"""A folder that nodes share: one account of theirs writes and reads in it, and nobody else but root."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpuprov.machine.folders import LocalFolders
from gpuprov.shapes.node import Mount
from gpuprov.spec.shared_folder import ACCOUNT_UID, SHARED

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.drivers.base import ExecResult
    from tests.contract.engines import Bench

STRANGER = ACCOUNT_UID + 1
AS_USER = "import os, sys; os.setgroups([]); os.setgid({user}); os.setuid({user}); {text}"
WRITE = f"open('{SHARED}/answer', 'w').write('42')"
READ = f"print(open('{SHARED}/answer').read())"


@pytest.fixture
def folder(bench: Bench, real: None, tmp_path: Path) -> Path:  # noqa: ARG001 - nodes need a kernel
    """A folder of the host that belongs to the account, as `cluster up` makes it."""
    if os.geteuid() != 0:
        pytest.skip("only root gives folders away")
    place = tmp_path.resolve() / "shared"
    LocalFolders().make(str(place), owner=bench.driver.owner_on_host(ACCOUNT_UID))
    return place


def sharing(bench: Bench, folder: Path) -> str:
    """A running node that mounts the folder."""
    name = bench.create(start=True, mounts=(Mount(source=str(folder), target=SHARED, read_only=False),))
    bench.await_boot(name)
    return name


def as_user(bench: Bench, node: str, user: int, text: str) -> ExecResult:
    """A line of Python that a user of the node runs."""
    return bench.driver.run(node, ["python3", "-c", AS_USER.format(user=user, text=text)])


def test_the_account_writes_in_one_node_and_reads_in_another(bench: Bench, folder: Path) -> None:
    one, other = sharing(bench, folder), sharing(bench, folder)
    written = as_user(bench, one, ACCOUNT_UID, WRITE)
    assert written.exit_code == 0, written
    assert as_user(bench, other, ACCOUNT_UID, READ).stdout.strip() == "42"
    assert (folder / "answer").read_text() == "42"
    assert (folder / "answer").stat().st_uid == bench.driver.owner_on_host(ACCOUNT_UID)
    assert bench.sh(other, f"stat -c %u {SHARED} {SHARED}/answer").split() == [str(ACCOUNT_UID)] * 2


def test_no_other_user_of_a_node_reads_or_writes_there(bench: Bench, folder: Path) -> None:
    node = sharing(bench, folder)
    assert as_user(bench, node, ACCOUNT_UID, WRITE).exit_code == 0
    for text in (WRITE, READ, f"os.listdir('{SHARED}')"):
        refused = as_user(bench, node, STRANGER, text)
        assert refused.exit_code == 1
        assert "PermissionError" in refused.stderr


def test_what_root_in_a_node_makes_there_is_that_of_its_user_on_the_host_and_no_device(
    bench: Bench, folder: Path
) -> None:
    node = sharing(bench, folder)
    bench.sh(node, f"echo 7 > {SHARED}/root")
    assert (folder / "root").stat().st_uid == bench.driver.owner_on_host(0)
    refused = as_user(bench, node, 0, f"os.mknod('{SHARED}/disk', 0o20600, os.makedev(1, 3))")
    assert refused.exit_code == 1
    assert "PermissionError" in refused.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["root"]


def test_a_running_node_gets_the_folder_and_gives_it_up(bench: Bench, folder: Path) -> None:
    bench.need("devices-live")
    node = bench.create(start=True)
    bench.await_boot(node)
    mount = Mount(source=str(folder), target=SHARED, read_only=False)
    bench.driver.set_devices(node, (), (mount,))
    assert bench.status(node) == "running"
    assert as_user(bench, node, ACCOUNT_UID, WRITE).exit_code == 0
    state = bench.driver.find_node(node)
    assert state is not None
    assert state.mounts == (mount,)
    bench.driver.set_devices(node, (), ())
    assert as_user(bench, node, ACCOUNT_UID, READ).exit_code == 1
    assert (folder / "answer").read_text() == "42"
