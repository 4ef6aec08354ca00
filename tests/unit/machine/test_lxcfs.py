from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import TimedOut
from gpuprov.machine import lxcfs
from gpuprov.machine.lxcfs import LxcfsMount, find_lxcfs, parse_lxcfs

if TYPE_CHECKING:
    from pathlib import Path

OWN = "43 27 0:41 / /var/lib/lxcfs rw,nosuid,nodev,relatime - fuse.lxcfs lxcfs rw,user_id=0,group_id=0,allow_other\n"
INCUS = OWN.replace("/var/lib/lxcfs", "/var/lib/incus-lxcfs")
OUTER = OWN.replace("/ /var/lib/lxcfs", "/proc/meminfo /proc/meminfo")


@pytest.mark.parametrize(
    ("mountinfo", "paths"),
    [
        (OWN, ("/var/lib/lxcfs",)),
        (OWN + OWN, ("/var/lib/lxcfs",)),
        (OUTER + OWN + INCUS, ("/var/lib/lxcfs", "/var/lib/incus-lxcfs")),
        (OUTER, ()),  # of an engine in whose container this machine is
        (OWN.replace("fuse.lxcfs", "ext4"), ()),
        (OWN.replace("/var/lib/lxcfs", "/var/lib/docker/overlay2/7/merged/var/lib/lxcfs"), ()),
        ("", ()),
    ],
)
def test_where_it_is_mounted(mountinfo: str, paths: tuple[str, ...]) -> None:
    assert parse_lxcfs(mountinfo) == paths


def make_root(folder: Path, mountinfo: str) -> Path:
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/mountinfo").write_text(mountinfo)
    return folder


def test_one_that_cannot_be_looked_at_has_the_kernel_s_words(tmp_path: Path) -> None:
    root = make_root(tmp_path, OWN)
    assert find_lxcfs(root) == (LxcfsMount(path="/var/lib/lxcfs", error="No such file or directory"),)
    (root / "var/lib/lxcfs/proc").mkdir(parents=True)
    (root / "var/lib/lxcfs/proc/meminfo").touch()
    assert find_lxcfs(root) == (LxcfsMount(path="/var/lib/lxcfs"),)


def test_one_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(argv: list[str], *, timeout_s: float, check: bool) -> None:
        raise TimedOut(f"{argv[0]} ran longer than {timeout_s:g} s", evidence=str(check), fix="f")

    monkeypatch.setattr(lxcfs, "run", hang)
    assert find_lxcfs(make_root(tmp_path, OWN)) == (
        LxcfsMount(path="/var/lib/lxcfs", error="stat ran longer than 5 s"),
    )


def test_that_of_a_snap_cannot_be_seen(tmp_path: Path) -> None:
    root = make_root(tmp_path, OUTER)
    assert find_lxcfs(root) == ()
    (root / "var/snap/lxd").mkdir(parents=True)
    assert find_lxcfs(root) is None
    assert find_lxcfs(root / "nowhere") is None
