"""How far apt is, by what it and dpkg leave on the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.machine.apt_progress import ARCHIVES, COMING, DPKG_LOG, LISTS_COMING, AptProgress

if TYPE_CHECKING:
    from pathlib import Path

MB = 10**6


def put(root: Path, path: str, size: int) -> Path:
    """A sparse file of that size."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as handle:
        handle.truncate(size)
    return file


def log(root: Path, *lines: str) -> None:
    file = root / DPKG_LOG
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as handle:
        handle.writelines(f"2026-11-26 13:22:31 {line}\n" for line in lines)


@pytest.fixture
def progress(tmp_path: Path) -> AptProgress:
    """Of a machine on which packages were installed before."""
    put(tmp_path, f"{ARCHIVES}/old_1.0_amd64.deb", 90 * MB)
    put(tmp_path, f"{COMING}/left_1.0_amd64.deb", MB)
    put(tmp_path, f"{LISTS_COMING}/deb.debian.org_left", MB)
    log(tmp_path, "install old:amd64 <none> 1.0", "status installed old:amd64 1.0")
    return AptProgress(tmp_path)


def test_what_was_there_before_is_no_progress(progress: AptProgress) -> None:
    assert progress.look() == ""


def test_a_machine_without_apt_has_none(tmp_path: Path) -> None:
    assert AptProgress(tmp_path).look() == ""


def test_lists_are_fetched_first(progress: AptProgress, tmp_path: Path) -> None:
    put(tmp_path, f"{LISTS_COMING}/deb.debian.org_dists_bookworm_InRelease", 5)
    assert progress.look() == "fetching the lists of packages"
    assert progress.look() == "", "it has been told"


def test_packages_that_are_fetched_are_counted_with_the_one_that_comes(progress: AptProgress, tmp_path: Path) -> None:
    partial = put(tmp_path, f"{COMING}/lxd_5.0.2-5_amd64.deb", 7 * MB)
    assert progress.look() == "fetching lxd; fetched 0 packages (7 MB)"
    partial.rename(tmp_path / ARCHIVES / partial.name)
    put(tmp_path, f"{ARCHIVES}/lxc_1%3a5.0_amd64.deb", 3 * MB)
    put(tmp_path, f"{COMING}/mmdebstrap_1.3_all.deb", 1 * MB)
    assert progress.look() == "fetching mmdebstrap; fetched 2 packages (11 MB)"


def test_what_an_earlier_run_has_left_is_told_once_it_grows(progress: AptProgress, tmp_path: Path) -> None:
    put(tmp_path, f"{COMING}/left_1.0_amd64.deb", 2 * MB)
    assert progress.look() == "fetching left; fetched 0 packages (2 MB)"


def test_packages_that_are_installed_are_counted(progress: AptProgress, tmp_path: Path) -> None:
    for name in ("lxd_5.0.2-5_amd64.deb", "lxc_5.0_amd64.deb"):
        put(tmp_path, f"{ARCHIVES}/{name}", MB)
    log(tmp_path, "install lxd:amd64 <none> 5.0.2-5", "status half-configured lxd:amd64 5.0.2-5")
    assert progress.look() == "fetched 2 packages (2 MB)"
    log(tmp_path, "install lxc:all <none> 5.0", "status installed lxd:amd64 5.0.2-5", "status installed man-db:amd64 2")
    assert progress.look() == "installed 1 of 2 packages"
    log(tmp_path, "status installed lxd:amd64 5.0.2-5", "status installed lxc:all 5.0")
    assert progress.look() == "installed 2 of 2 packages"


def test_packages_that_were_fetched_before_are_installed_too(progress: AptProgress, tmp_path: Path) -> None:
    log(tmp_path, "install old:amd64 <none> 1.0", "status installed old:amd64 1.0")
    assert progress.look() == "installed 1 package"


def test_a_log_that_is_turned_over_or_cut_in_a_line_is_read_on(progress: AptProgress, tmp_path: Path) -> None:
    file = tmp_path / DPKG_LOG
    with file.open("a", encoding="utf-8") as handle:
        handle.write("2026-11-26 13:22:31 install lx")
    assert progress.look() == ""
    with file.open("a", encoding="utf-8") as handle:
        handle.write("d:amd64 <none> 5\n2026-11-26 13:22:31 status installed lxd:amd64 5\n")
    assert progress.look() == "installed 1 package"
    file.unlink()
    log(tmp_path, "install lxc:amd64 <none> 5", "status installed lxc:amd64 5")
    assert progress.look() == "installed 2 packages"
