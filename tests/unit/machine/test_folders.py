"""Folders that nodes mount: made once, taken from nobody, removed without following a link."""

from __future__ import annotations

import os
import stat
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.machine import folders as folders_module
from gpuprov.machine.folders import LocalFolders, find_filesystem, find_mounts
from gpuprov.machine.local import LocalHost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UID = 4711
PLACE = "/srv/gpuprov/lab"
ROOT_ALONE = pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")


@pytest.fixture
def folders(tmp_path: Path) -> LocalFolders:
    (tmp_path / "srv").mkdir()
    return LocalHost(root=tmp_path).folders


@ROOT_ALONE
def test_a_folder_and_those_above_it_are_made_whatever_the_umask(folders: LocalFolders, tmp_path: Path) -> None:
    assert folders.look(PLACE).kind == "absent"
    before = os.umask(0o077)
    try:
        folders.make(PLACE, owner=UID)
    finally:
        os.umask(before)
    made, above = (tmp_path / "srv/gpuprov/lab").stat(), (tmp_path / "srv/gpuprov").stat()
    assert (made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode)) == (UID, UID, 0o750)
    assert (above.st_uid, stat.S_IMODE(above.st_mode)) == (0, 0o700)
    seen = folders.look(PLACE)
    assert (seen.kind, seen.at, seen.owner, seen.empty, seen.can_give) == ("folder", PLACE, UID, True, True)


@ROOT_ALONE
def test_a_folder_of_the_right_owner_stays_as_it_is(folders: LocalFolders, tmp_path: Path) -> None:
    folders.make(PLACE, owner=UID)
    folder = tmp_path / PLACE[1:]
    (folder / "result").write_text("42")
    folder.chmod(0o700)
    folders.make(PLACE, owner=UID)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "result").read_text() == "42"
    assert not folders.look(PLACE).empty


@ROOT_ALONE
def test_an_empty_folder_of_root_is_taken_and_any_other_is_not(folders: LocalFolders, tmp_path: Path) -> None:
    folder = tmp_path / PLACE[1:]
    folder.mkdir(parents=True)
    (folder / "mine").write_text("")
    with pytest.raises(HostNotReady, match="is not used") as caught:
        folders.make(PLACE, owner=UID)
    assert caught.value.evidence == "it belongs to user 0 and is not a new folder"
    (folder / "mine").unlink()
    os.chown(folder, 99, 99)
    with pytest.raises(HostNotReady, match="is not used"):
        folders.make(PLACE, owner=UID)
    assert folder.stat().st_uid == 99
    os.chown(folder, 0, 0)
    folders.make(PLACE, owner=UID)
    assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (UID, 0o750)


@pytest.mark.parametrize("kind", ["link", "file"])
@pytest.mark.parametrize("place", ["srv/gpuprov", "srv/gpuprov/lab"])
def test_what_is_no_folder_is_seen_and_never_followed(
    folders: LocalFolders, tmp_path: Path, kind: str, place: str
) -> None:
    target, stranger = tmp_path / place, tmp_path / "elsewhere"
    stranger.mkdir()
    target.parent.mkdir(exist_ok=True)
    if kind == "link":
        target.symlink_to(stranger)
    else:
        target.write_text("")
    seen = folders.look(PLACE)
    assert (seen.kind, seen.at) == (kind, f"/{place}")
    with pytest.raises(HostNotReady) as caught:
        folders.make(PLACE, owner=UID)
    assert caught.value.evidence
    with pytest.raises(HostNotReady):
        folders.drop(PLACE)
    assert list(stranger.iterdir()) == []


def test_a_folder_with_content_is_not_dropped(folders: LocalFolders, tmp_path: Path) -> None:
    folder = tmp_path / PLACE[1:]
    folder.mkdir(parents=True)
    (folder / "result").write_text("42")
    with pytest.raises(HostNotReady, match=f"{PLACE} cannot be removed") as caught:
        folders.drop(PLACE)
    assert caught.value.evidence.startswith("Directory not empty")
    (folder / "result").unlink()
    folders.drop(PLACE)
    assert folders.look(PLACE).kind == "absent"


def test_empty_homes_are_dropped_with_the_folder_and_no_file_ever(folders: LocalFolders, tmp_path: Path) -> None:
    folder, stranger = tmp_path / PLACE[1:], tmp_path / "elsewhere"
    (stranger / "empty").mkdir(parents=True)
    (folder / "home/ann").mkdir(parents=True)
    (folder / "accounts/vision").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(stranger)
    for left in (tmp_path / "file", tmp_path / "link"):
        there = left.rename(folder / "home/ann/left")
        with pytest.raises(HostNotReady, match=f"{PLACE} cannot be removed"):
            folders.drop(PLACE)
        assert (folder / "accounts/vision").is_dir(), "nothing is removed where something stays"
        there.unlink()
    folders.drop(PLACE)
    assert folders.look(PLACE).kind == "absent"
    assert (stranger / "empty").is_dir()


def test_a_folder_is_removed_with_its_links_and_without_what_they_lead_to(
    folders: LocalFolders, tmp_path: Path
) -> None:
    folder, stranger = tmp_path / PLACE[1:], tmp_path / "elsewhere"
    stranger.mkdir()
    (stranger / "kept").write_text("")
    (folder / "runs").mkdir(parents=True)
    (folder / "runs/link").symlink_to(stranger)
    (tmp_path / "srv/gpuprov/lab2").mkdir()
    folders.set_aside(PLACE)
    assert folders.look(PLACE).kind == "absent"
    folder.mkdir()  # the next cluster's
    folders.clear(PLACE)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["lab", "lab2"]
    assert (stranger / "kept").exists()


@pytest.mark.slow
def test_what_a_killed_run_had_set_aside_is_removed_by_the_next(folders: LocalFolders, tmp_path: Path) -> None:
    left = tmp_path / "srv/gpuprov/.lab.removed-1"
    folders.clear(PLACE)  # nothing is there
    left.mkdir(parents=True)
    here = os.open(left, os.O_RDONLY)
    for _ in range(2 * sys.getrecursionlimit()):  # deeper than a path, and than Python's own way, can reach
        os.mkdir("d", dir_fd=here)
        above, here = here, os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(above)
    os.close(here)
    folders.clear(PLACE)
    assert not left.exists()


def test_mount_points_are_found_at_a_path_and_below_it() -> None:
    mountinfo = "\n".join(
        f"{number} 1 8:1 / {point} rw - ext4 /dev/sda rw"
        for number, point in enumerate(
            ["/", "/srv", "/srv/gpuprov/lab", "/srv/gpuprov/lab/a\\040b", "/srv/gpuprov/lab2"]
        )
    )
    assert list(find_mounts(f"{mountinfo}\nnonsense\n", PLACE)) == [PLACE, f"{PLACE}/a b"]


def test_a_mount_is_seen_where_the_kernel_shows_it(folders: LocalFolders, tmp_path: Path) -> None:
    (tmp_path / PLACE[1:]).mkdir(parents=True)
    assert folders.look(PLACE).mounts == ()
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(f"9 1 8:1 / {PLACE} rw - ext4 /dev/sdb rw\n")
    assert folders.look(PLACE).mounts == (PLACE,)


@ROOT_ALONE
def test_a_folder_is_emptied_by_its_owner_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.chdir(closed)
    with TemporaryDirectory() as root:  # pytest's own folders are root's alone
        Path(root).chmod(0o755)
        folders, folder = LocalHost(root=Path(root)).folders, Path(root, PLACE[1:])
        Path(root, "srv").mkdir()
        folders.make(PLACE, owner=UID)
        folder.parent.chmod(0o755)
        (folder / "job").mkdir()
        (folder / "job/result").touch()
        for path in (folder / "job", folder / "job/result"):
            os.chown(path, UID, UID)
        folders.empty(PLACE, owner=UID)
        assert list(folder.iterdir()) == []


MARK = ".gpuprov-mark-00ff"


@ROOT_ALONE
def test_a_mark_is_left_read_and_removed_as_the_user_to_whom_the_folder_belongs(
    folders: LocalFolders, tmp_path: Path
) -> None:
    folders.make(PLACE, owner=UID)
    folder = tmp_path / PLACE[1:]
    assert folders.read_mark(PLACE, MARK) == ""
    folders.leave_marks(PLACE, {MARK: "00ff"})
    left = (folder / MARK).stat()
    assert (left.st_uid, left.st_gid, stat.S_IMODE(left.st_mode)) == (UID, UID, 0o600)
    assert folders.read_mark(PLACE, MARK) == "00ff"
    assert folders.look(PLACE).empty
    folder.chmod(0o500)  # root could write there
    with pytest.raises(HostNotReady, match=f"cannot be written by user {UID}") as caught:
        folders.remove_mark(PLACE, MARK)
    assert "Permission denied" in caught.value.evidence
    assert (os.geteuid(), os.getegid()) == (0, 0)
    folder.chmod(0o700)
    folders.remove_mark(PLACE, MARK)
    folders.remove_mark(PLACE, MARK)
    assert list(folder.iterdir()) == []


@ROOT_ALONE
def test_a_mark_goes_through_no_link_and_the_next_one_removes_what_a_killed_run_left(
    folders: LocalFolders, tmp_path: Path
) -> None:
    folders.make(PLACE, owner=UID)
    folder, stranger = tmp_path / PLACE[1:], tmp_path / "theirs"
    stranger.write_text("secret")
    (folder / MARK).symlink_to(stranger)
    for act in (lambda: folders.leave_marks(PLACE, {MARK: "00ff"}), lambda: folders.read_mark(PLACE, MARK)):
        with pytest.raises(HostNotReady):
            act()
    assert stranger.read_text() == "secret"
    for name, age_s in ((".gpuprov-mark-old", 3600), (".gpuprov-mark-new", 60), ("result", 3600)):
        (folder / name).write_text("")
        os.utime(folder / name, (time.time() - age_s,) * 2)
        os.chown(folder / name, UID, UID)
    folders.leave_marks(PLACE, {f".gpuprov-mark-{text}": text for text in ("01", "02")})
    names = {path.name for path in folder.iterdir()} - {MARK}
    assert names == {".gpuprov-mark-01", ".gpuprov-mark-02", ".gpuprov-mark-new", "result"}
    assert folders.read_mark(PLACE, ".gpuprov-mark-02") == "02"


@pytest.mark.parametrize("when", ["before it is looked at", "before it is removed"])
def test_marks_that_another_controller_removes_meanwhile_do_not_matter(
    folders: LocalFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    folder = tmp_path / PLACE[1:]
    folder.mkdir(parents=True)
    old, unlink, removed = folder / ".gpuprov-mark-old", os.unlink, []
    old.write_text("")
    os.utime(old, (time.time() - 3600,) * 2)

    def look(found: Iterable[os.DirEntry[str]], _most: int) -> Iterator[os.DirEntry[str]]:
        for entry in found:
            if entry.name == old.name:
                removed.append(entry.name)
                unlink(old)
            yield entry

    def remove(name: str, *, dir_fd: int) -> None:
        removed.append(name)
        unlink(name, dir_fd=dir_fd)
        unlink(name, dir_fd=dir_fd)

    if when == "before it is looked at":
        monkeypatch.setattr(folders_module, "islice", look)
    else:
        monkeypatch.setattr(os, "unlink", remove)
    folders.leave_marks(PLACE, {MARK: "00ff"})
    monkeypatch.undo()
    assert removed == [old.name]
    assert [path.name for path in folder.iterdir()] == [MARK]


def test_the_file_system_is_the_one_that_was_mounted_last_at_the_longest_path() -> None:
    table = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
30 21 0:40 / /data/my\\040lab rw shared:1 - nfs4 nas:/old rw
31 21 0:41 / /data/my\\040lab rw shared:1 - nfs4 nas:/lab rw
32 21 0:42 / /database rw - xfs /dev/sdb rw
"""
    assert find_filesystem(table, "/data/my lab/results") == "nfs4 nas:/lab"
    assert find_filesystem(table, "/data") == "ext4 /dev/sda1"
    assert find_filesystem("", "/data") == ""
