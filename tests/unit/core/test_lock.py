from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady, TimedOut
from gpuprov.core.lock import LOCK_NAME, host_lock
from gpuprov.core.reporter import Silent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Recording

HOLD = """
import sys, time
from pathlib import Path
from gpuprov.core.lock import host_lock
from gpuprov.core.reporter import Silent
sys.argv = ["/usr/bin/gpuprov", "create-node", "x", "-e", "COLOUR=hunter2"]
with host_lock(Silent(), folder=Path({folder!r})):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of `tmp_path`."""
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", HOLD.format(folder=str(tmp_path))], stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_who_waits_is_told_for_whom(tmp_path: Path, holder: subprocess.Popen[str], recording: Recording) -> None:
    with pytest.raises(TimedOut) as caught, host_lock(recording, folder=tmp_path, timeout_s=0.2):
        pass
    (line,) = recording.lines
    assert line.startswith(f"note waiting for process {holder.pid} of ")
    assert line.endswith(": gpuprov create-node x -e COLOUR=(hidden)")
    assert str(holder.pid) in caught.value.what
    assert "hunter2" not in caught.value.what
    assert "hunter2" not in (tmp_path / LOCK_NAME).read_text()


def test_who_waits_in_vain_leaves_the_holders_name(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    for _ in range(2):
        with (
            pytest.raises(TimedOut, match=f"process {holder.pid} of"),
            host_lock(Silent(), folder=tmp_path, timeout_s=0),
        ):
            pass


def test_it_names_its_holder_for_as_long_as_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / LOCK_NAME
    with host_lock(Silent(), folder=tmp_path):
        assert path.read_text().startswith(f"process {os.getpid()} of ")
    assert path.read_text() == ""
    with pytest.raises(ValueError, match="x"), host_lock(Silent(), folder=tmp_path):
        raise ValueError("x")
    assert path.read_text() == ""


def test_a_killed_holder_lets_go(tmp_path: Path, holder: subprocess.Popen[str], recording: Recording) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with host_lock(recording, folder=tmp_path, timeout_s=5):
        assert recording.lines == []


def test_it_is_free_again_after_the_block_and_after_an_error(tmp_path: Path, recording: Recording) -> None:
    with pytest.raises(ValueError, match="x"), host_lock(recording, folder=tmp_path):
        raise ValueError("x")
    for _ in range(2):
        with host_lock(recording, folder=tmp_path, timeout_s=0):
            pass
    assert recording.lines == []


def test_two_holders_in_one_process_exclude_each_other_too(tmp_path: Path) -> None:
    with (
        host_lock(Silent(), folder=tmp_path),
        pytest.raises(TimedOut),
        host_lock(Silent(), folder=tmp_path, timeout_s=0),
    ):
        pass


def test_everyone_may_take_it_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with host_lock(Silent(), folder=tmp_path):
            assert (tmp_path / LOCK_NAME).stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


@pytest.mark.parametrize("trap", ["link", "folder", "missing"])
def test_a_lock_that_cannot_be_is_an_error_with_a_way_out(tmp_path: Path, trap: str) -> None:
    folder = tmp_path / "lock"
    if trap != "missing":
        folder.mkdir()
    if trap == "link":
        (folder / LOCK_NAME).symlink_to(tmp_path / "elsewhere")
    elif trap == "folder":
        (folder / LOCK_NAME).mkdir()
    with pytest.raises(HostNotReady) as caught, host_lock(Silent(), folder=folder):
        pass
    assert str(folder / LOCK_NAME) in caught.value.fix
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """Above it is none that only its owner may enter, as above `tmp_path`."""
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user to try it")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_another_user_takes_the_lock_that_root_made_in_a_sticky_folder(public_folder: Path) -> None:
    public_folder.chmod(0o1777)
    with host_lock(Silent(), folder=public_folder):
        pass
    child = os.fork()
    if child == 0:
        os.setgid(65534)
        os.setuid(65534)
        try:
            with host_lock(Silent(), folder=public_folder, timeout_s=0):
                os._exit(0)
        except BaseException:  # noqa: BLE001 - a forked test process must end here, whatever happens
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
