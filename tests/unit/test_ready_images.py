"""Images for tests come from the engine, from a file, or from a build, in this order."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.provision.kept_bases import FRESH_S
from tests.ready_images import Image, file_of, forget_old, load, make_ready, save

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "gpuprov-image-0123456789ab"


class Engine:
    """An engine and the commands that it was given, by their second word."""

    def __init__(self, *, has: bool = False, takes_files: bool = True, writes_files: bool = True) -> None:
        self.has, self.takes_files, self.writes_files = has, takes_files, writes_files
        self.did: list[str] = []

    def __call__(self, argv: Sequence[str]) -> bool:
        verb = "build" if "build" in argv else argv[1]
        self.did.append(verb)
        if verb == "export":
            Path(argv[3]).touch()
            return self.writes_files
        self.has = verb == "build" or self.takes_files
        return self.has

    def image(self) -> Image:
        return Image(engine="lxd", role="slurm", name=lambda: NAME if self.has else None)


@pytest.mark.parametrize(
    ("engine", "there", "source", "did"),
    [
        (Engine(has=True), True, "engine", []),
        (Engine(has=True), False, "engine", ["export"]),
        (Engine(), True, "file", ["import"]),
        (Engine(), False, "built", ["build", "export"]),
        (Engine(takes_files=False), True, "built", ["import", "build", "export"]),
    ],
)
def test_where_an_image_comes_from(tmp_path: Path, engine: Engine, there: bool, source: str, did: list[str]) -> None:
    file = file_of(tmp_path, "lxd", "0123456789abcdef")
    if there:
        file.touch()
    assert make_ready(engine.image(), file, engine) == source
    assert engine.did == did
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_was_not_written_to_its_end_is_none(tmp_path: Path) -> None:
    engine = Engine(has=True, writes_files=False)
    file = file_of(tmp_path, "lxd", "0123456789abcdef")
    assert make_ready(engine.image(), file, engine) == "engine"
    assert not file.exists()
    old, fresh = tmp_path / "lxc-a.tar", tmp_path / "lxc-b.tar"
    for one in (old, fresh):
        one.touch()
    os.utime(old, (0, 0))
    forget_old(tmp_path, now_s=fresh.stat().st_mtime + FRESH_S / 2)
    assert list(tmp_path.iterdir()) == [fresh]


def test_lxd_and_incus_share_files_and_docker_has_its_own(tmp_path: Path) -> None:
    assert file_of(tmp_path, "lxd", "a" * 64) == file_of(tmp_path, "incus", "a" * 64)
    assert file_of(tmp_path, "lxd", "a" * 64) != file_of(tmp_path, "docker", "a" * 64)
    assert save("docker", NAME, tmp_path)[-1] == "gpuprov-image:0123456789ab"
    assert save("incus", NAME, tmp_path)[:3] == ["incus", "export", NAME]
    assert load("lxd", tmp_path)[:2] == ["lxc", "import"]
