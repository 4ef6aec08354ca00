from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.disk import Disk, Usage
from gpuprov.core.errors import TimedOut
from gpuprov.machine import disks
from gpuprov.machine.disks import count_usage, look_at_disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GIB = 1 << 30


@pytest.mark.parametrize(
    ("disk", "percent", "words"),
    [
        (Disk(total_bytes=100 * GIB, free_bytes=9 * GIB), 91, "91 % full: 9.0 GiB of 100.0 GiB free"),
        (
            Disk(total_bytes=100 * GIB, free_bytes=90 * GIB, total_files=1000, free_files=10),
            99,
            "99 % full: 10 of 1000 inodes free",
        ),
        (Disk(total_bytes=0, free_bytes=0), 0, "0 % full: 0.0 GiB of 0.0 GiB free"),
    ],
)
def test_space_or_inodes_whichever_is_scarcer(disk: Disk, percent: int, words: str) -> None:
    assert (disk.percent, disk.words) == (percent, words)


def test_each_job_is_told_by_itself_and_no_link_is_followed(tmp_path: Path) -> None:
    shared, outside = tmp_path / "shared", tmp_path / "outside"
    for path, size in (("jobs/1/runs/0/big", 3), ("jobs/2/small", 1), ("data/set", 2)):
        (shared / path).parent.mkdir(parents=True)
        (shared / path).write_bytes(os.urandom(size << 20))
    outside.mkdir()
    (outside / "huge").write_bytes(os.urandom(9 << 20))
    (shared / "jobs/2/link").symlink_to(outside)
    usage = count_usage(shared)
    assert usage.whole
    assert [name for name, _, _ in usage.largest][:3] == ["jobs/1", "data", "jobs/2"]
    assert all(size < 4 << 20 for _, size, _ in usage.largest)


def test_who_has_many_files_is_told_too(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"jobs/{number}").mkdir(parents=True)
        (tmp_path / f"jobs/{number}/big").write_bytes(os.urandom(1 << 20))
    (tmp_path / "jobs/9").mkdir()
    for number in range(50):
        (tmp_path / f"jobs/9/{number}").touch()
    assert {name: files for name, _, files in count_usage(tmp_path).largest}["jobs/9"] == 51


def test_a_tree_without_end_is_counted_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs/1").mkdir(parents=True)
    monkeypatch.setattr(disks, "COUNT_S", -1.0)
    assert not count_usage(tmp_path).whole


def test_a_file_server_that_is_away_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(_act: Callable[[], object], *, limit_s: float) -> object:
        raise TimedOut("a look at folders did not end", evidence=f"{limit_s} s", fix="findmnt")

    assert look_at_disk(tmp_path) is not None
    assert look_at_disk(tmp_path / "none") is None
    monkeypatch.setattr(disks, "call_aside", hang)
    assert look_at_disk(tmp_path) is None
    assert count_usage(tmp_path) == Usage(whole=False)
