"""An instance that LXD does not let go of, since one of its own processes reads a file there."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.drivers.lxd.api import NotFound
from gpuprov.drivers.lxd.ending import remove_instance, stop_instance
from gpuprov.drivers.lxd.family import KIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@pytest.fixture
def reader() -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like LXD's, and never ends by itself."""
    with subprocess.Popen(["sh", "-c", "read x", "forkfile", "--"], stdin=subprocess.PIPE) as process:
        while b"forkfile" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():  # empty for a moment after exec
            time.sleep(0.001)
        yield process
        process.kill()


class HeldLxd:
    """An LXD that stops and removes nothing while a process lives; `deaf` where the node ignores a request to stop."""

    engine, command, kin = "lxd", "lxc", KIN["lxd"]

    def __init__(self, folder: Path, reader: subprocess.Popen[bytes] | None, *, deaf: bool = False) -> None:
        self.socket = folder / "unix.socket"
        self.reader, self.deaf = reader, deaf
        self.status = "Running"
        self.asked: list[str] = []
        if reader is not None:
            place = folder / "logs" / "c000"
            place.mkdir(parents=True)
            (place / "forkfile.pid").write_text(f"{reader.pid}\n")

    def _wait(self) -> None:
        if self.reader is None:
            return
        try:
            self.reader.wait(0.1)
        except subprocess.TimeoutExpired:
            raise TimedOut("lxd did not finish", evidence="the operation goes on", fix="wait") from None

    def get(self, *_path: str) -> dict[str, Any]:
        if self.status == "Gone":
            raise NotFound("no such instance", evidence="none", fix="list")
        return {"status": self.status, "devices": {}, "config": {}}

    def send(self, _method: str, *_path: str, body: Mapping[str, Any], timeout_s: float) -> None:
        assert timeout_s < 60
        self.asked.append("kill" if body.get("force") else "stop")
        if self.deaf and not body.get("force"):
            raise EngineError("lxd could not", evidence="the instance is busy", fix="wait")
        self._wait()
        self.status = "Stopped"

    def delete(self, *_path: str, timeout_s: float | None) -> None:
        if self.reader is not None and self.reader.poll() is None:
            assert timeout_s is not None  # a removal that is held up is not waited for as one that makes progress
        self._wait()
        self.status = "Gone"


def test_a_node_that_listens_is_not_forced(tmp_path: Path) -> None:
    lxd = HeldLxd(tmp_path, None)
    assert stop_instance(cast("Any", lxd), "c000", grace_s=10.0) == ""
    assert lxd.asked == ["stop"]


def test_a_node_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    lxd = HeldLxd(tmp_path, None, deaf=True)
    assert stop_instance(cast("Any", lxd), "c000", grace_s=10.0) == "killed, as it did not shut down within 10 s"
    assert lxd.asked == ["stop", "kill"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.drivers.lxd.ending._SETTLE_S", 0.1)


@pytest.mark.usefixtures("quick")
def test_a_process_of_lxd_s_own_is_ended_if_it_is_in_the_way(tmp_path: Path, reader: subprocess.Popen[bytes]) -> None:
    lxd = HeldLxd(tmp_path, reader)
    assert "reading a file" in stop_instance(cast("Any", lxd), "c000", grace_s=10.0)
    assert reader.wait(10) == -9
    assert lxd.status == "Stopped"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("status", ["Running", "Stopped"])
def test_it_holds_up_no_removal(tmp_path: Path, reader: subprocess.Popen[bytes], status: str) -> None:
    lxd = HeldLxd(tmp_path, reader)
    lxd.status = status
    assert "reading a file" in remove_instance(cast("Any", lxd), "c000")
    assert lxd.status == "Gone"
    assert remove_instance(cast("Any", lxd), "c000") == ""


def test_no_other_process_is_ended_for_it(tmp_path: Path) -> None:
    """Its number may be anybody's, since LXD does not always remove the file."""
    with subprocess.Popen(["sleep", "60"]) as stranger:
        lxd = HeldLxd(tmp_path, stranger)
        with pytest.raises(TimedOut):
            remove_instance(cast("Any", lxd), "c000")
        assert stranger.poll() is None
        stranger.kill()


def test_who_is_not_root_is_told_that_root_may_be_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as unseen:
        lxd = HeldLxd(tmp_path, unseen)
        monkeypatch.setattr("os.geteuid", lambda: 1000)
        with pytest.raises(TimedOut) as caught:
            remove_instance(cast("Any", lxd), "c000")
        assert "sudo" in caught.value.fix
        unseen.kill()
