"""Owners that live, and owners that certainly do not."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.process import describe_owner, is_gone

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A machine on which process 7, whose name is `a) b`, began at tick 4711."""
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("boot-1\n")
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[1]")
    begin(tmp_path, 7, 4711)
    return tmp_path


def begin(proc: Path, pid: int, tick: int) -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} (a) b) S {' '.join(['0'] * 18)} {tick} 99 98\n")


def test_an_owner_in_words(proc: Path) -> None:
    assert describe_owner(7, proc=proc) == f"{platform.node()} boot-1 pid:[1] 7 4711"


def test_one_that_lives_is_not_gone(proc: Path) -> None:
    assert not is_gone(describe_owner(7, proc=proc), proc=proc)


def test_one_that_ended_or_whose_number_another_has_is_gone(proc: Path) -> None:
    owner = describe_owner(7, proc=proc)
    begin(proc, 7, 4712)
    assert is_gone(owner, proc=proc)
    (proc / "7/stat").unlink()
    assert is_gone(owner, proc=proc)


def test_one_of_an_earlier_boot_is_gone(proc: Path) -> None:
    owner = describe_owner(7, proc=proc)
    (proc / "sys/kernel/random/boot_id").write_text("boot-2\n")
    assert is_gone(owner, proc=proc)


@pytest.mark.parametrize(
    "owner", ["", "nonsense", "elsewhere boot-0 pid:[1] 7 1", f"{platform.node()} boot-1 pid:[2] 9 1"]
)
def test_one_that_cannot_be_seen_from_here_may_live(proc: Path, owner: str) -> None:
    assert not is_gone(owner, proc=proc)


def test_a_number_that_is_none_is_no_process(proc: Path) -> None:
    assert is_gone(f"{platform.node()} boot-1 pid:[1] ../7 4711", proc=proc)


def test_a_real_one() -> None:
    assert not is_gone(describe_owner(os.getpid()))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        owner = describe_owner(child.pid)
        assert not is_gone(owner)
        child.communicate(b"\n")
    assert is_gone(owner)
