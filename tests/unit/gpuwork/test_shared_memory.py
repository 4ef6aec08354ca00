"""What a run leaves in /dev/shm goes with it, unless somebody else may need it."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

from gpuwork.jobs.shared_memory import drop_shared_memory

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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
    monkeypatch.setattr("gpuwork.jobs.shared_memory.find_values", lambda _variable: set())
    drop_shared_memory(RUN, since=began, place=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_while_another_job_is_there_everything_stays(tmp_path: Path) -> None:
    fill(tmp_path)
    other = subprocess.Popen(["/bin/sleep", "60"], env={"GPUWORK_RUN": "/shared/jobs/8/runs/0"})
    try:
        drop_shared_memory(RUN, since=0, place=tmp_path)
    finally:
        other.kill()
        other.wait()
    assert (tmp_path / "torch_7").exists()
