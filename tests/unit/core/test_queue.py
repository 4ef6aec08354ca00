from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.queue import QUEUE_NAME, Queue

if TYPE_CHECKING:
    from pathlib import Path

WAITER = """
import sys, time
from pathlib import Path
from gpuprov.core.queue import Queue
with Queue(Path(sys.argv[1])).join(sys.argv[2]):
    print("in", flush=True)
    time.sleep(60)
"""


def texts(folder: Path) -> list[str]:
    return [ticket.text for ticket in Queue(folder).waiting()]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / QUEUE_NAME).iterdir())


def test_first_in_first_out(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    assert queue.waiting() == ()
    with queue.join("a") as first, queue.join("b") as second:
        assert texts(tmp_path) == ["a", "b"]
        assert first.number < second.number
        first.leave()
        with queue.join("c"):
            assert texts(tmp_path) == ["b", "c"]
    assert texts(tmp_path) == []
    assert names(tmp_path) == []


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_whoever_is_killed_is_out_of_it(tmp_path: Path, end: signal.Signals) -> None:
    waiter = subprocess.Popen([sys.executable, "-c", WAITER, str(tmp_path), "killed"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == b"in\n"
        with Queue(tmp_path).join("alive"):
            assert texts(tmp_path) == ["killed", "alive"]
            waiter.send_signal(end)
            waiter.wait(10)
            assert texts(tmp_path) == ["alive"]
            assert len(names(tmp_path)) == 1
    finally:
        waiter.kill()
        waiter.communicate()


def test_what_is_no_ticket_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / QUEUE_NAME
    folder.mkdir()
    (folder / "notes").write_text("mine")
    (folder / "7").symlink_to("/etc/passwd")
    with Queue(tmp_path).join("a") as place:
        assert texts(tmp_path) == ["a"]
        assert place.number == 8
    assert names(tmp_path) == ["7", "notes"]


def test_a_queue_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / QUEUE_NAME).write_text("a file")
    assert texts(tmp_path) == []
    with pytest.raises(HostNotReady) as caught, Queue(tmp_path).join("a"):
        pass
    assert QUEUE_NAME in caught.value.fix
