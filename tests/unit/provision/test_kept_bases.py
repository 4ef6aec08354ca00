from __future__ import annotations

import fcntl
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from gpuprov.provision.kept_bases import FRESH_S, Base, import_name, keep_base, take_base

if TYPE_CHECKING:
    from pathlib import Path

HOUR_S = 3600
KEYS = ("0" * 12, "1" * 12, "2" * 12)
PLAIN = Base(suite="bookworm", packages=("python3",))
SLURM = Base(suite="bookworm", packages=("slurmd",), kind="slurm-systemd")
TRIXIE = Base(suite="trixie", packages=("python3",))


def kept(path: Path, *, built_s: float = 0, taken_s: float = 2 * HOUR_S) -> Path:
    """A base that was built and taken so many seconds ago."""
    path.write_text("tar")
    os.utime(path, (time.time() - taken_s, time.time() - built_s))
    return path


def keep_another(cache: Path, base: Base = PLAIN) -> Path:
    made, tar = cache / ".made", base.place(cache, KEYS[1])
    made.write_text("new")
    keep_base(made, tar)
    return tar


def test_a_base_is_taken_for_a_week(tmp_path: Path) -> None:
    tar = PLAIN.place(tmp_path, KEYS[0])
    assert not take_base(tar)
    assert not take_base(tmp_path / "absent" / tar.name)
    assert take_base(kept(tar, built_s=FRESH_S - HOUR_S))
    assert not take_base(kept(tar, built_s=FRESH_S + 1))


def test_one_that_is_built_again_is_another_one_for_the_engine(tmp_path: Path) -> None:
    tar = keep_another(tmp_path)
    kept(tar, built_s=FRESH_S + 1)
    before = import_name(tar)
    assert not take_base(tar)
    assert keep_another(tmp_path) == tar
    assert take_base(tar)
    assert import_name(tar) != before
    assert import_name(tar) == import_name(tar)


def test_a_new_one_supersedes_those_of_its_suite_and_kind_alone(tmp_path: Path) -> None:
    superseded = kept(PLAIN.place(tmp_path, KEYS[0]))
    others = [kept(base.place(tmp_path, KEYS[0])) for base in (SLURM, TRIXIE)]
    foreign = [kept(tmp_path / name, built_s=2 * FRESH_S) for name in ("rootfs-foreign.tar", "rootfs-bookworm.tar")]
    new = keep_another(tmp_path)
    assert not superseded.exists()
    assert sorted(tmp_path.iterdir()) == sorted([new, *others, *foreign])


def test_what_is_too_old_goes_whatever_it_is_for(tmp_path: Path) -> None:
    former_name = tmp_path / f"rootfs-bookworm-{KEYS[2]}.tar"
    for path in (SLURM.place(tmp_path, KEYS[0]), former_name):
        kept(path, built_s=FRESH_S + 1)
    assert [keep_another(tmp_path)] == list(tmp_path.iterdir())


def test_what_another_build_has_just_taken_stays(tmp_path: Path) -> None:
    taken = kept(PLAIN.place(tmp_path, KEYS[0]), built_s=FRESH_S - HOUR_S)
    assert take_base(taken)
    new = keep_another(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([taken, new])
    kept(taken)
    keep_another(tmp_path)
    assert list(tmp_path.iterdir()) == [new]


@pytest.mark.parametrize("act", [take_base, lambda tar: keep_another(tar.parent)])
def test_one_at_a_time_takes_or_removes_them(tmp_path: Path, act: object) -> None:
    tar = kept(PLAIN.place(tmp_path, KEYS[0]))
    ended = threading.Event()

    def work() -> None:
        assert callable(act)
        act(tar)
        ended.set()

    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    thread = threading.Thread(target=work)
    thread.start()
    assert not ended.wait(0.1)
    assert tar.exists()
    os.close(held)
    thread.join(10)
    assert ended.is_set()
