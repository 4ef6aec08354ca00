"""Folders of plays: of those that are over, those alone stay whose log is worth reading."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpuprov.provision.folder import play_folder

HOLD = """
import sys, time
from gpuprov.provision.folder import play_folder
with play_folder() as folder:
    (folder.path / "secret").touch()
    print(folder.path, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_folder_goes_however_its_block_ends(scratch: Path) -> None:
    with pytest.raises(KeyboardInterrupt), play_folder() as folder:
        assert folder.path.parent == scratch
        raise KeyboardInterrupt
    assert list(scratch.iterdir()) == []


def test_what_a_killed_run_left_goes_with_the_next_and_nothing_else(scratch: Path) -> None:
    with play_folder() as kept:
        kept.keep()
    foreign = scratch / "gpuprov-play-foreign"
    foreign.mkdir()
    (scratch / "gpuprov-play-link").symlink_to(foreign)
    (scratch / "gpuprov-play-file").touch()
    others = set(scratch.iterdir())
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        held = Path(process.stdout.readline().strip())
        with play_folder() as other:
            assert held.is_dir(), "its run lives"
            assert set(scratch.iterdir()) == others | {held, other.path}
        os.kill(process.pid, signal.SIGKILL)
    assert held.is_dir()
    with play_folder():
        assert not held.exists()
    assert set(scratch.iterdir()) == others
