from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core import lock
from gpuprov.core.errors import TimedOut
from gpuprov.core.group_files import LOCK_NAME, Gates
from gpuprov.core.lock import describe_wait, host_lock
from gpuprov.core.queue import Queue, Ticket
from gpuprov.core.reporter import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Recording

    Start = Callable[[str, float], subprocess.Popen[bytes]]

ROOT = Path(__file__).parents[3]
PYTHON = (sys.executable, "-S")  # no packages of others: it starts in half the time
HOLD = """
import sys, time
from pathlib import Path
from gpuprov.core.group_files import Gates
from gpuprov.core.lock import host_lock
from gpuprov.core.reporter import Silent
folder, name, seconds = sys.argv[1:]
sys.argv = ["/usr/bin/gpuprov", "create-node", name, "-e", "COLOUR=hunter2"]
with host_lock(Silent(), gates=Gates(folder=Path(folder))):
    with Path(folder, "order").open("a") as order:
        order.write(f"{name}\\n")
    time.sleep(float(seconds))
"""


@pytest.fixture
def gates(tmp_path: Path) -> Gates:
    return Gates(folder=tmp_path)


@pytest.fixture
def start(gates: Gates) -> Iterator[Start]:
    """Start another process that takes the lock under a name for some seconds, and wait until it is in the queue."""
    started: list[subprocess.Popen[bytes]] = []

    def start_one(name: str, seconds: float) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([*PYTHON, "-c", HOLD, str(gates.place), name, str(seconds)], cwd=ROOT)
        started.append(process)
        until(lambda: any(f"process {process.pid} of" in ticket.text for ticket in queued(gates)))
        return process

    yield start_one
    for process in started:
        process.kill()
        process.wait()


def queued(gates: Gates) -> tuple[Ticket, ...]:
    return Queue(gates, LOCK_NAME).waiting()


def order(gates: Gates) -> list[str]:
    path = gates.place / "order"
    return path.read_text().split() if path.exists() else []


def until(seen: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 30
    while not seen():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_who_waits_is_told_for_whom_and_since_when(gates: Gates, start: Start, recording: Recording) -> None:
    holder = start("x", 60)
    with pytest.raises(TimedOut) as caught, host_lock(recording, gates=gates, timeout_s=0.2):
        pass
    (line,) = recording.lines
    assert re.fullmatch(
        rf"note waiting for process {holder.pid} of \S+: gpuprov create-node x -e COLOUR=\(hidden\), "
        r"since \d\d:\d\d:\d\d \(\d+ s\)",
        line,
    )
    assert f"process {holder.pid} of" in caught.value.evidence
    assert "hunter2" not in caught.value.evidence
    assert b"hunter2" not in gates.file(LOCK_NAME).read_bytes()


@pytest.mark.slow
def test_the_time_begins_anew_with_each_run_that_ends(gates: Gates, start: Start) -> None:
    start("first", 1)
    start("second", 1)
    began_s = time.monotonic()
    with host_lock(Silent(), gates=gates, timeout_s=1.4):
        pass
    assert time.monotonic() - began_s > 1.4


def test_who_waits_long_is_told_again(
    gates: Gates, start: Start, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    start("first", 60)
    start("second", 60)
    monkeypatch.setattr(lock, "AGAIN_S", 0.02)
    with pytest.raises(TimedOut), host_lock(recording, gates=gates, timeout_s=0.2):
        pass
    assert len(recording.lines) > 1
    for line in recording.lines:
        assert "create-node first " in line
        assert line.endswith("; 1 more before this one")


@pytest.mark.slow
def test_twenty_at_once_have_it_in_the_order_in_which_they_came(gates: Gates, start: Start) -> None:
    names = [f"c{number:03}" for number in range(20)]
    with host_lock(Silent(), gates=gates):
        waiters = [start(name, 0) for name in names]
        assert order(gates) == []
    for waiter in waiters:
        waiter.wait(30)
    assert order(gates) == names


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_killed_holders_and_killed_waiters_are_passed_over(gates: Gates, start: Start, end: signal.Signals) -> None:
    holder = start("holder", 60)
    until(lambda: order(gates) == ["holder"])
    waiters = [start(name, 60 if name == "second" else 0) for name in ("first", "second", "third", "fourth")]
    waiters[2].send_signal(end)
    waiters[2].wait(10)
    assert order(gates) == ["holder"]
    holder.send_signal(end)
    until(lambda: order(gates) == ["holder", "first", "second"])
    waiters[1].send_signal(end)
    waiters[3].wait(30)
    assert order(gates) == ["holder", "first", "second", "fourth"]
    with host_lock(Silent(), gates=gates, timeout_s=0):
        pass


def test_a_stopped_waiter_keeps_its_place_and_holds_up_nobody_who_looks(gates: Gates, start: Start) -> None:
    with host_lock(Silent(), gates=gates):
        waiter = start("stopped", 0)
        waiter.send_signal(signal.SIGSTOP)
        assert len(queued(gates)) == 2
    waiter.send_signal(signal.SIGCONT)
    waiter.wait(30)
    assert order(gates) == ["stopped"]


def test_it_names_its_holder_for_as_long_as_it_is_held(gates: Gates) -> None:
    with host_lock(Silent(), gates=gates):
        (holder,) = queued(gates)
        assert holder.text.startswith(f"process {os.getpid()} of ")
    with pytest.raises(ValueError, match="x"), host_lock(Silent(), gates=gates):
        raise ValueError("x")
    assert queued(gates) == ()
    assert not gates.file(LOCK_NAME).read_bytes().strip(b"\0")


def test_it_is_free_again_after_the_block_and_after_an_error(gates: Gates, recording: Recording) -> None:
    with pytest.raises(ValueError, match="x"), host_lock(recording, gates=gates):
        raise ValueError("x")
    for _ in range(2):
        with host_lock(recording, gates=gates, timeout_s=0):
            pass
    assert recording.lines == []


def test_two_holders_in_one_process_exclude_each_other_too(gates: Gates) -> None:
    with host_lock(Silent(), gates=gates), pytest.raises(TimedOut), host_lock(Silent(), gates=gates, timeout_s=0):
        pass


def test_what_a_holder_says_of_itself_is_shown_escaped_and_short() -> None:
    holder = Ticket(number=1, text="\x1b[2Jroot\nerror: all is lost\u202e" + "x" * 60_000, since_s=1e6)
    said = describe_wait((holder, holder, holder), now_s=1e6 + 14)
    assert said.isprintable()
    assert len(said) < 300
    assert said.endswith("(14 s); 2 more before this one")


@pytest.mark.parametrize("since_s", [float("nan"), float("inf"), -1e300, 1e300, 0.0, 2e9])
def test_a_time_that_is_none_is_not_believed(since_s: float) -> None:
    said = describe_wait((Ticket(number=1, text="", since_s=since_s),), now_s=1e9)
    assert said.startswith("another run of gpuprov")
    assert "nan" not in said
