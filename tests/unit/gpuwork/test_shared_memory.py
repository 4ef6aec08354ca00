"""What a run leaves in /dev/shm goes with it, unless somebody else may need it."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from gpuwork.jobs.shared_memory import drop_shared_memory, is_needed

if TYPE_CHECKING:
    from pathlib import Path

RUN = {"GPUWORK_RUN": "/shared/jobs/7/runs/0"}


def fill(place: Path) -> None:
    (place / "torch_7").write_text("x")
    (place / "folder/below").mkdir(parents=True)
    (place / "folder/below/file").write_text("x")
    (place / "link").symlink_to("/nowhere")
    (place / "old").write_text("x")
    os.utime(place / "old", (1, 1))


def test_what_was_written_since_the_run_began_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.time() - 60
    fill(tmp_path)
    monkeypatch.setattr("gpuwork.jobs.shared_memory.is_needed", lambda _marks: False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    deep = tmp_path / "deep"
    deep.mkdir()
    at = os.open(deep, os.O_RDONLY)
    for _ in range(1500):  # more than Python recurses, and than a path can name
        os.mkdir("longer_name", dir_fd=at)
        below = os.open("longer_name", os.O_RDONLY, dir_fd=at)
        os.fchown(below, 1000, -1)
        os.close(at)
        at = below
    os.close(at)
    for path in (*tmp_path.iterdir(), *(tmp_path / "folder").rglob("*")):
        os.chown(path, 1000, -1, follow_symlinks=False)
    drop_shared_memory(RUN, since=began, place=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_files_of_root_stay(tmp_path: Path) -> None:
    fill(tmp_path)
    drop_shared_memory(RUN, since=0, place=tmp_path)
    assert os.geteuid() == 0
    assert (tmp_path / "torch_7").exists()


@pytest.mark.parametrize("environment", [{"GPUWORK_RUN": "/shared/jobs/8/runs/0"}, {}], ids=["a job", "a notebook"])
def test_another_process_may_need_them(environment: dict[str, str]) -> None:
    other = subprocess.Popen(["/bin/sleep", "60"], env=environment)
    try:
        assert is_needed(RUN)
    finally:
        other.kill()
        other.wait()
