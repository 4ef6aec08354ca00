from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import HostNotReady
from gpuprov.core.group_files import QUEUE_NAME, Gates
from gpuprov.core.queue import SLOT_BYTES, Queue

if TYPE_CHECKING:
    from pathlib import Path

WAITER = """
import sys, time
from pathlib import Path
from gpuprov.core.group_files import Gates
from gpuprov.core.queue import Queue
with Queue(Gates(folder=Path(sys.argv[1]))).join(sys.argv[2]):
    print("in", flush=True)
    time.sleep(60)
"""


def queue_in(folder: Path) -> Queue:
    return Queue(Gates(folder=folder))


def texts(folder: Path) -> list[str]:
    return [ticket.text for ticket in queue_in(folder).waiting()]


def file_in(folder: Path) -> Path:
    return Gates(folder=folder).file(QUEUE_NAME)


def test_first_in_first_out(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    assert queue.waiting() == ()
    with queue.join("a") as first, queue.join("b") as second:
        assert texts(tmp_path) == ["a", "b"]
        assert (first.ahead(), [ticket.text for ticket in second.ahead()]) == ((), ["a"])
        first.leave()
        assert second.ahead() == ()
        with queue.join("c") as third:
            assert texts(tmp_path) == ["b", "c"], "a free slot is used again, and the order is that of arrival"
            assert [ticket.text for ticket in third.ahead()] == ["b"]
        with queue.join("d"):
            assert texts(tmp_path) == ["b", "d"]
    assert texts(tmp_path) == []


def test_who_has_left_leaves_no_word(tmp_path: Path) -> None:
    with queue_in(tmp_path).join("hunter2"), queue_in(tmp_path).join("é" * SLOT_BYTES):
        assert b"hunter2" in file_in(tmp_path).read_bytes()
        assert [len(text) for text in texts(tmp_path)] == [7, (SLOT_BYTES - 20) // 2]
    assert not file_in(tmp_path).read_bytes().strip(b"\0")


def test_many_at_once_get_places_of_their_own(tmp_path: Path) -> None:
    places = [queue_in(tmp_path).join(str(number)) for number in range(40)]
    with ThreadPoolExecutor(len(places)) as pool:
        numbers = list(pool.map(lambda place: place.__enter__().number, places))
    assert sorted(numbers) == list(range(1, 41))
    assert sorted(texts(tmp_path), key=int) == [str(number) for number in range(40)]
    for place in places:
        place.__exit__(None, None, None)
    assert texts(tmp_path) == []


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_whoever_is_killed_is_out_of_it(tmp_path: Path, end: signal.Signals) -> None:
    waiter = subprocess.Popen([sys.executable, "-c", WAITER, str(tmp_path), "killed"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == b"in\n"
        with queue_in(tmp_path).join("alive") as place:
            assert texts(tmp_path) == ["killed", "alive"]
            waiter.send_signal(end)
            waiter.wait(10)
            assert texts(tmp_path) == ["alive"]
            assert place.ahead() == ()
    finally:
        waiter.kill()
        waiter.communicate()


@pytest.mark.parametrize(
    "rubbish", [b"\xff" * 3 * SLOT_BYTES, b"{}", os.urandom(2 * SLOT_BYTES)], ids=["full", "short", "chance"]
)
def test_what_is_no_ticket_is_none(tmp_path: Path, rubbish: bytes) -> None:
    with queue_in(tmp_path).join("a"):
        pass
    file_in(tmp_path).write_bytes(rubbish)
    assert texts(tmp_path) == []
    with queue_in(tmp_path).join("b"):
        assert texts(tmp_path) == ["b"]


@pytest.mark.parametrize("rubbish", [b"\xff" * 3 * SLOT_BYTES, b""], ids=["full", "empty"])
def test_a_ticket_that_somebody_has_overwritten_still_holds_its_place(tmp_path: Path, rubbish: bytes) -> None:
    with queue_in(tmp_path).join("a"):
        file_in(tmp_path).write_bytes(rubbish)
        (ticket,) = queue_in(tmp_path).waiting()
        assert ticket.text.strip("\N{REPLACEMENT CHARACTER}") == ""
        with queue_in(tmp_path).join("b") as place:
            assert len(place.ahead()) == 1


def test_a_lock_on_all_of_the_file_is_one_place(tmp_path: Path) -> None:
    """As a member who means no good would take it: nobody gets past it, and nobody looks for its end."""
    queue = queue_in(tmp_path)
    with queue.join("a"), queue.join("b") as second, file_in(tmp_path).open("r+b") as file:
        second.leave()
        everything = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 2 * SLOT_BYTES, 0, 0)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, everything)
        assert len(queue.waiting()) == 2
        for length in (5 * SLOT_BYTES + 1, 5 * SLOT_BYTES):
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 3 * SLOT_BYTES, length, 0))
            with queue.join("c") as place:
                assert [ticket.text for ticket in place.ahead()] == ["", "a"]


def test_a_queue_that_cannot_be_is_said(tmp_path: Path) -> None:
    file_in(tmp_path).mkdir(parents=True)
    assert texts(tmp_path) == []
    with pytest.raises(HostNotReady) as caught, queue_in(tmp_path).join("a"):
        pass
    assert QUEUE_NAME in caught.value.evidence
