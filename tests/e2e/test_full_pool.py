"""Storage that fills up while an image is built: the engine's own words, nothing left, and the next run goes on.

The LXD is one of the tests' own, with a pool and an image store in sparse files.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.provision.folder import abandoned_folders
from tests.e2e.conftest import lxd, output
from tests.e2e.killing import loose_links, step_of
from tests.e2e.test_exhaustion import MIB, daemon, has_three_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.conftest import Gpuprov

pytestmark = pytest.mark.long
BUILD = ("image", "build", "--role", "plain", "--gpu-mode", "simulated", "--engine", "lxd")
POOL = "small"
# Not pytest's own: the unprivileged root of a node has no way through that.
FOLDER = Path("/var/tmp/gpuprov-full-pool")
PIECES = (512 * MIB, 64 * MIB, 4 * MIB, 64 * 1024)


@contextmanager
def small_file_system(file: Path, folder: Path, size: str) -> Iterator[None]:
    """An ext4 of its own in a sparse file, mounted there."""
    output("truncate", "--size", size, str(file))
    output("mkfs.ext4", "-q", "-m", "0", str(file))
    folder.mkdir(mode=0o700)
    output("mount", "-o", "loop", str(file), str(folder))
    try:
        yield
    finally:
        output("umount", "--lazy", str(folder))
        file.unlink()


def remove_folder() -> None:
    """Also what a killed run left mounted."""
    for place in ("devlxd", "shmounts", f"storage-pools/{POOL}", "images"):
        subprocess.run(["umount", "--lazy", str(FOLDER / place)], check=False, capture_output=True)
    shutil.rmtree(FOLDER, ignore_errors=True)


@pytest.fixture
def second_lxd(gpuprov: Gpuprov, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:  # noqa: ARG001
    """The folder of an LXD whose pool has 6 GiB and whose image store has 2 GiB."""
    remove_folder()
    FOLDER.mkdir(mode=0o711)
    monkeypatch.setenv("LXD_DIR", str(FOLDER))
    try:
        with (
            small_file_system(tmp_path / "images.ext4", FOLDER / "images", "2G"),
            daemon("lxd", "--group", "root", "--logfile", str(tmp_path / "lxd.log"), LXD_DIR=str(FOLDER)),
        ):
            output("lxd", "waitready", "--timeout", "30")
            output("lxc", "storage", "create", POOL, "btrfs", "size=6GiB")
            yield FOLDER
    finally:
        remove_folder()


def fill(folder: Path) -> Path:
    """Take all the room there is, by files that are allocated and not written."""
    taken = folder / "taken"
    taken.mkdir()
    for size in PIECES:
        for number in range(1000):
            file = taken / f"{size}-{number}"
            try:
                with file.open("wb") as handle:
                    os.posix_fallocate(handle.fileno(), 0, size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                file.unlink(missing_ok=True)
                break
    return taken


def make_room(taken: Path) -> None:
    for file in taken.iterdir():
        file.unlink()
    taken.rmdir()
    output("sync", "--file-system", str(taken.parent))


def build_until_full(gpuprov: Gpuprov, variables: dict[str, str], folder: Path) -> tuple[str, Path]:
    """Build an image, and fill the folder once the build has found that there is room; what it says."""
    lines: list[str] = []
    taken = None
    with gpuprov.start("--verbose", *BUILD, variables=variables) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                lines.append(line)
                if taken is None and step_of(line) == "base ...":
                    taken = fill(folder)
            process.wait()
        finally:
            process.kill()
    said = "".join(lines)
    assert process.returncode == 3, said
    assert "Traceback" not in said
    assert taken is not None, said
    return said, taken


def surroundings() -> dict[str, object]:
    """What a build must not leave anything of."""
    volumes = lxd(f"storage-pools/{POOL}/volumes?recursion=1")
    return {
        "instances": lxd("instances"),
        "volumes": [volume["name"] for volume in volumes if volume["type"] != "image"],
        "networks": [network["name"] for network in lxd("networks?recursion=1") if network["managed"]],
        "bridges": sorted(link["ifname"] for link in json.loads(output("ip", "-j", "link", "show", "type", "bridge"))),
        "links": loose_links(),
        "plays": abandoned_folders(),
    }


@pytest.mark.parametrize("place", ["images", f"storage-pools/{POOL}"])
def test_storage_that_fills_up_while_an_image_is_built(gpuprov: Gpuprov, second_lxd: Path, place: str) -> None:
    """The image store is full when the base is imported, or the pool when the builder is made of it."""
    variables = {"LXD_DIR": str(second_lxd)}
    before = surroundings()
    said, taken = build_until_full(gpuprov, variables, second_lxd / place)
    assert "error: lxd's storage became full while the image was built" in said
    assert "no space left on device" in said.lower()
    assert "gpuprov image list" in said
    for part in ("evidence: ", "fix: "):
        assert f"\n{part}" in said, said
    assert surroundings() == before
    started = time.monotonic()
    has_three_parts(gpuprov(*BUILD, expect=3, variables=variables), started)  # one that finds it full says so at once
    make_room(taken)
    assert "built image" in gpuprov(*BUILD, variables=variables).stdout
    assert gpuprov(*BUILD, variables=variables).stdout == "unchanged\n"
    (image,) = gpuprov("--json", "image", "list", "--engine", "lxd", variables=variables).document["images"]
    gpuprov("image", "rm", image["name"], "--engine", "lxd", variables=variables)
    assert surroundings() == before
