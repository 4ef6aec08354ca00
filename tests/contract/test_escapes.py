"""Paths that try to leave a node or an image's archive end inside or in an error, never on the host."""

from __future__ import annotations

import contextlib
import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import GpuprovError
from gpuprov.drivers.base import LABEL_VERSION, File

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpuprov.drivers.base import Driver
    from tests.contract.engines import Bench

pytestmark = pytest.mark.usefixtures("real")
UP = "/.." * 20


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A folder of the host into which nothing may be written, and a file in it that nobody may read from a node."""
    folder = tmp_path / "outside"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    (folder / "secret").write_text("of the host")
    yield folder
    assert [path.name for path in folder.iterdir()] == ["secret"]
    assert (folder / "secret").read_text() == "of the host"


@pytest.fixture
def linked(bench: Bench, outside: Path) -> Iterator[str]:
    """A running node with links that lead, if the host follows them, to that folder."""
    name = bench.create()
    bench.driver.start_node(name)
    links = f"ln -s {outside} /opt/absolute; ln -s /opt{UP}{outside} /opt/relative; ln -s {outside}/secret /opt/file"
    assert bench.driver.run(name, ["sh", "-c", links]).exit_code == 0
    yield name
    bench.driver.delete_node(name)


@pytest.mark.parametrize("running", [True, False])
def test_nothing_is_pushed_to_the_host(bench: Bench, linked: str, outside: Path, *, running: bool) -> None:
    if not running:
        bench.driver.stop_node(linked)
    for path in (
        f"/opt{UP}{outside}/escaped",
        f"/opt/absolute{'/..' * 8}{outside}/escaped",
        "/opt/absolute/escaped",
        "/opt/relative/escaped",
        "/opt/file",
        "/proc/1/root/../escaped",
    ):
        with contextlib.suppress(GpuprovError):
            bench.driver.push(linked, [File(path=path, content=b"escaped")])


@pytest.mark.parametrize("running", [True, False])
def test_nothing_is_pulled_from_the_host(bench: Bench, linked: str, outside: Path, *, running: bool) -> None:
    if not running:
        bench.driver.stop_node(linked)
    for path in (f"/opt{UP}{outside}/secret", "/opt/absolute/secret", "/opt/relative/secret", "/opt/file"):
        with contextlib.suppress(GpuprovError):
            assert bench.driver.pull(linked, path) != b"of the host"


def write_hostile_rootfs(path: Path, outside: Path) -> str:
    """An archive whose members climb, are absolute, or pass through a link that leaves it."""
    with tarfile.open(path, "w") as tar:
        for name in (f"..{UP}{outside}/climbed", f"{outside}/absolute", "etc/marker"):
            member = tarfile.TarInfo(name)
            member.size = 4
            tar.addfile(member, io.BytesIO(b"gpt\n"))
        for name, kind in (("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE)):
            member = tarfile.TarInfo(name)
            member.type = kind
            member.linkname = str(outside if kind == tarfile.SYMTYPE else outside / "secret")
            tar.addfile(member)
        member = tarfile.TarInfo("link/through")
        member.size = 4
        tar.addfile(member, io.BytesIO(b"gpt\n"))
    return str(path)


def test_a_hostile_archive_stays_inside(driver: Driver, bench: Bench, outside: Path, tmp_path: Path) -> None:
    rootfs = write_hostile_rootfs(tmp_path / "rootfs.tar", outside)
    identity = None
    try:
        with contextlib.suppress(GpuprovError):
            identity = driver.import_rootfs("gpt-hostile", rootfs, {LABEL_VERSION: "test"})
            name = bench.create(image=identity)
            for path in ("/hard", "/link/secret"):
                with contextlib.suppress(GpuprovError):
                    assert driver.pull(name, path) != b"of the host"
    finally:
        if identity:
            driver.delete_image(identity)
