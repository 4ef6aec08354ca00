"""The end-to-end tests' look at what an engine leaves finds it by name, and sweeps no more than that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e import remains

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_folders_of_a_mark_are_found_and_swept_but_for_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remains, "LXD", (str(tmp_path),))
    pool = tmp_path / "storage-pools" / "default"
    ours = [pool / "containers" / "xx001", tmp_path / "networks" / "xx0", tmp_path / "security" / "seccomp" / "xx001"]
    kept, foreign, log = pool / "containers" / "xx002", pool / "containers" / "yy001", tmp_path / "logs" / "xx001"
    for folder in (*ours, kept, foreign, log):
        (folder / "rootfs").mkdir(parents=True)
    link = tmp_path / "containers" / "xx001"
    link.parent.mkdir()
    link.symlink_to(foreign)
    assert remains.find_folders("xx") == sorted([*ours, kept, link])
    remains.sweep_remains("xx", kept={"xx002"})
    assert remains.find_folders("xx") == [kept]
    assert (foreign / "rootfs").is_dir()
    assert (log / "rootfs").is_dir()
