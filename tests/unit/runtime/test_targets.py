"""Places for mounts in the root file system of an image that means ill."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.runtime.targets import is_folder, make_targets

if TYPE_CHECKING:
    from pathlib import Path

TARGET = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"


def test_what_is_missing_is_made(tmp_path: Path) -> None:
    make_targets(tmp_path, [TARGET, "/usr/bin/nvidia-smi"])
    make_targets(tmp_path, [TARGET])
    assert (tmp_path / TARGET.lstrip("/")).read_bytes() == b""
    assert is_folder(tmp_path, "/usr/lib/x86_64-linux-gnu")


@pytest.mark.parametrize("link", ["usr", "usr/lib", "usr/lib/x86_64-linux-gnu"])
@pytest.mark.parametrize("kind", ["absolute", "relative", "proc"])
def test_no_link_on_the_way_is_followed(tmp_path: Path, link: str, kind: str) -> None:
    rootfs, outside = tmp_path / "rootfs", tmp_path / "outside"
    outside.mkdir()
    place = rootfs / link
    place.parent.mkdir(parents=True)
    leads = {"absolute": str(outside), "relative": "../" * 9 + str(outside), "proc": f"/proc/self/root{outside}"}[kind]
    place.symlink_to(leads)
    with pytest.raises(HostNotReady, match="no place for"):
        make_targets(rootfs, [TARGET])
    assert not is_folder(rootfs, "/usr/lib/x86_64-linux-gnu")
    assert list(outside.iterdir()) == []


def test_a_link_in_the_place_of_the_file_is_replaced(tmp_path: Path) -> None:
    rootfs, secret = tmp_path / "rootfs", tmp_path / "secret"
    secret.write_text("of the host")
    place = rootfs / TARGET.lstrip("/")
    place.parent.mkdir(parents=True)
    place.symlink_to(secret)
    make_targets(rootfs, [TARGET])
    assert not place.is_symlink()
    assert secret.read_text() == "of the host"


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / TARGET.lstrip("/")).mkdir(parents=True)
    with pytest.raises(HostNotReady):
        make_targets(tmp_path, [TARGET])
