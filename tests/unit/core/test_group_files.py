"""Who may open a file behind gates, tried by processes of other users and groups."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.group_files import CHANGES_NAME, Gates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIRST, SECOND, NEITHER = 54001, 54002, 54003  # groups that no machine has
ALICE, MALLORY = 54101, 54102
TRY = """
import os, sys
from pathlib import Path
from gpuprov.core.errors import HostNotReady
from gpuprov.core.group_files import Gates
folder, uid, group, groups = sys.argv[1:]
os.setgroups([])
os.setgid(int(group))
os.setuid(int(uid))
try:
    seen = os.fstat(Gates(folder=Path(folder), groups=frozenset(map(int, groups.split(",")))).open("lock"))
    print(seen.st_ino)
except HostNotReady as error:
    print(error.what, error.evidence, error.fix, sep="|")
"""

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user to try it")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Above it is none that only its owner may enter, as above `tmp_path`."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name) / "lock"


def open_as(folder: Path, uid: int, group: int, *groups: int) -> str:
    argv = [sys.executable, "-S", "-c", TRY, str(folder), str(uid), str(group), ",".join(map(str, groups))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def inode(folder: Path, *groups: int) -> str:
    """Of the file, after its owner has opened it."""
    descriptor = Gates(folder=folder, groups=frozenset(groups)).open("lock")
    try:
        return str(os.fstat(descriptor).st_ino)
    finally:
        os.close(descriptor)


@as_root
def test_members_of_each_engines_group_open_one_and_the_same_file(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        file = inode(folder, FIRST, SECOND)
    finally:
        os.umask(before)
    assert open_as(folder, ALICE, FIRST, FIRST, SECOND) == file
    assert open_as(folder, MALLORY, SECOND, FIRST, SECOND) == file
    assert inode(folder, FIRST, SECOND) == file


@as_root
def test_who_is_in_no_engines_group_is_told_so_and_cannot_open_it_in_any_way(folder: Path) -> None:
    inode(folder, FIRST, SECOND)
    what, evidence, fix = open_as(folder, MALLORY, NEITHER, FIRST, SECOND).split("|")
    assert what == "this user may not change this host"
    assert (
        evidence
        == f"only root and members of {FIRST}, {SECOND} can hold its lock; uid {MALLORY} is a member of {NEITHER}"
    )
    assert fix == f"sudo usermod -aG {FIRST} $USER, then log in again"
    gates = [path for path in folder.iterdir() if path.is_dir()]
    assert len(gates) == 3
    for gate in gates:
        seen = gate.stat()
        assert not seen.st_mode & (stat.S_IRWXO | stat.S_IWGRP), "nobody else enters, and no member replaces the file"
        assert seen.st_uid == 0


@as_root
def test_a_member_for_whom_root_has_not_made_it_yet_is_told_so(folder: Path) -> None:
    for _ in range(2):
        what, evidence, fix = open_as(folder, ALICE, SECOND, FIRST, SECOND).split("|")
        assert what == "the lock of this host is not open to this user yet"
        assert str(SECOND) in evidence
        assert fix == "run this command once with sudo"
        inode(folder, FIRST)
    file = inode(folder, SECOND)
    assert open_as(folder, ALICE, SECOND, FIRST, SECOND) == file


@as_root
def test_a_gate_of_an_earlier_version_is_refused_before_anything_is_changed(folder: Path) -> None:
    """It lacks the locks of single changes, which would be missed in the middle of a verb."""
    file = inode(folder, FIRST)
    (folder / str(FIRST) / CHANGES_NAME).unlink()
    what, _, fix = open_as(folder, ALICE, FIRST, FIRST).split("|")
    assert (what, fix) == ("the lock of this host is not open to this user yet", "run this command once with sudo")
    assert inode(folder, FIRST) == file
    assert open_as(folder, ALICE, FIRST, FIRST) == file


@as_root
def test_where_no_engine_has_a_group_the_lock_is_roots_alone(folder: Path) -> None:
    inode(folder)
    assert "root alone" in open_as(folder, ALICE, FIRST, NEITHER)


def make_link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


TRAPS: tuple[Callable[[Path], object], ...] = (make_link, os.mkfifo, make_socket)


@pytest.mark.parametrize(
    ("place", "trap"),
    [*product(("", "owner", "owner/lock"), TRAPS), *product(("", "owner"), [Path.touch]), ("owner/lock", Path.mkdir)],
)
def test_what_gpuprov_did_not_make_is_refused_with_words(
    folder: Path, place: str, trap: Callable[[Path], object]
) -> None:
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    trap(path)
    with pytest.raises(HostNotReady) as caught:
        inode(folder)
    assert str(path) in caught.value.evidence
    assert caught.value.fix
    assert not path.with_name("elsewhere").exists()


@as_root
@pytest.mark.parametrize("place", ["", "owner", "owner/lock", str(FIRST)])
def test_what_another_user_made_is_refused_with_words(folder: Path, place: str) -> None:
    inode(folder, FIRST)
    os.chown(folder / place, MALLORY, FIRST)
    with pytest.raises(HostNotReady, match=f"belongs to uid {MALLORY}"):
        inode(folder, FIRST)
    if place != "owner":
        said = open_as(folder, ALICE, FIRST, FIRST)
        assert said.split("|")[0] == "the lock of this host was not created by gpuprov"
        assert f"sudo rm -r {folder / place}".rstrip("/") in said.replace(f"{FIRST}/lock", "owner/lock")


@as_root
def test_modes_that_somebody_has_changed_are_put_right(folder: Path) -> None:
    file = inode(folder, FIRST)
    for path in (folder, folder / "owner", folder / str(FIRST)):
        path.chmod(0o777)
    (folder / str(FIRST) / "lock").unlink()
    (folder / str(FIRST) / "lock").write_text("another file")
    assert inode(folder, FIRST) == file
    modes = [stat.S_IMODE((folder / gate).stat().st_mode) for gate in ("", "owner", str(FIRST))]
    assert modes == [0o755, 0o700, 0o750]
    assert open_as(folder, ALICE, FIRST, FIRST) == file
