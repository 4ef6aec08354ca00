"""The hook that fetches packages, with an apt-get that only writes down where it would put them."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuprov.core.waiting import Wait
from gpuprov.provision.rootfs import HOOKS

Hook = Callable[..., subprocess.Popen[str]]
APT_GET = """#!/bin/sh
for word; do case $word in Dir::Cache::archives=*) echo deb >"${word#*=}/a.deb" || exit 1;; esac; done
"""


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    """Starts it as mmdebstrap would, for the root file system `root`."""
    for folder in ("bin", "hooks", "root"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bin/apt-get").write_text(APT_GET)
    (tmp_path / "bin/apt-get").chmod(0o755)
    (tmp_path / "hooks/setup.sh").write_bytes((HOOKS / "setup.sh").read_bytes())
    (tmp_path / "hooks/packages").write_text("python3")

    def start(**told: str) -> subprocess.Popen[str]:
        argv = ["sh", str(tmp_path / "hooks/setup.sh"), str(tmp_path / "root")]
        environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", **told}
        return subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True)

    return start


def said(process: subprocess.Popen[str]) -> str:
    with process:
        _, stderr = process.communicate(timeout=20)
    return f"{process.returncode} {stderr}".strip()


def test_packages_are_fetched_for_an_mmdebstrap_that_takes_them(hook: Hook, tmp_path: Path) -> None:
    assert said(hook(MMDEBSTRAP_APT_CONFIG="/x", MMDEBSTRAP_VERBOSITY="1")) == "0"
    assert (tmp_path / "root/var/cache/apt/archives/a.deb").exists()


@pytest.mark.parametrize("told", [{}, {"MMDEBSTRAP_APT_CONFIG": "/x"}])
def test_for_an_mmdebstrap_that_refuses_fetched_packages_none_are_fetched(
    hook: Hook, tmp_path: Path, told: dict[str, str]
) -> None:
    assert said(hook(**told)) == "0"
    assert list((tmp_path / "root").iterdir()) == []


def test_what_is_removed_while_it_waits_for_the_lock_is_made_again(hook: Hook, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "hooks/kept").symlink_to(kept)
    held = os.open(kept, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    process = hook(MMDEBSTRAP_APT_CONFIG="/x", MMDEBSTRAP_VERBOSITY="1")
    waits = Wait(what="the hook to wait for the lock", timeout_s=20, fix="look")
    waits.until(lambda: _is_waited_for(held), bool)
    kept.rmdir()
    os.close(held)
    assert said(process) == "0"
    assert (kept / "a.deb").exists()
    assert (tmp_path / "root/var/cache/apt/archives/a.deb").exists()


def _is_waited_for(held: int) -> bool:
    """Whether somebody waits for the lock that this process holds, by the kernel's list."""
    inode = str(os.fstat(held).st_ino)
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any("->" in line and any(word.endswith(f":{inode}") for word in line) for line in lines)
