"""The member's end: it serves request after request, and ends when nobody listens, and only once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov import __version__
from gpuprov.link.lines import PROTOCOL, Lines, parse_line, render_line
from gpuprov.shapes.base import raw, read
from gpuprov.shapes.lines import Beat, Failure, Hello, NoteSaid, Request, Result
from gpuprov.shapes.outcome import Changes

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

REQUEST = render_line(Request(verb="up", host="hoff", document=raw("{}")))
WORK = """
import os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.default_int_handler)
from gpuprov.link.requests import Requests
from gpuprov.link.serve import take_streams
from gpuprov.shapes.outcome import Changes
requests = Requests(*take_streams())
requests.greet("own")
while asked := requests.receive():
    if end := requests.fork():
        break
else:
    sys.exit(0)
folder = Path(sys.argv[1])
interrupts = 0
try:
    if asked.verb == "mute":
        os._exit(0)
    if asked.verb == "short":
        end.result(Changes(host=str(os.getpid()), changed=()))
        os._exit(0)
    if asked.verb == "fail":
        end.error({"what": "no", "evidence": "", "fix": "", "exit_code": 2})
        os._exit(0)
    for _ in range(600):
        end.note("x" * int(sys.argv[2]))
        time.sleep(0.05)
except KeyboardInterrupt:
    try:
        time.sleep(0.2)  # the undo
    except KeyboardInterrupt:
        interrupts += 1
    (folder / "undone").write_text(str(interrupts))
    end.error({"what": "interrupted", "evidence": "", "fix": "", "exit_code": 130})
"""


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A member that has said hello."""
    argv = [sys.executable, "-c", WORK, str(tmp_path), "1"]
    environment = {**os.environ, "GPUPROV_SILENCE_S": "10"}  # 1 s without a beat
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
    ) as running:
        assert running.stdin
        assert running.stdout
        assert parse_line(running.stdout.readline()).kind == "hello"
        yield running
        running.kill()


@pytest.fixture
def member(idle: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """One that serves a request for long."""
    assert idle.stdin
    assert idle.stdout
    idle.stdin.write(REQUEST)
    idle.stdin.flush()
    assert parse_line(idle.stdout.readline()).kind == "note"
    return idle


def test_closed_input_ends_it(member: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert member.stdin
    assert member.stdout
    member.stdin.close()
    said = [*Lines().feed(member.stdout.read())]
    assert isinstance(said[-1], Failure)
    assert said[-1].exit_code == 130
    assert member.wait(20) == 0
    assert (tmp_path / "undone").read_text() == "0"


def test_both_ends_closed_interrupt_it_once(member: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert member.stdin
    assert member.stdout
    member.stdout.close()
    member.stdin.close()
    assert member.wait(20) == 0
    assert (tmp_path / "undone").read_text() == "0"


def test_silence_ends_it_and_beats_keep_it(member: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert member.stdin
    for _ in range(6):
        member.stdin.write(render_line(Beat()))
        member.stdin.flush()
        time.sleep(0.25)
    assert member.poll() is None
    assert not (tmp_path / "undone").exists()
    began_s = time.monotonic()
    assert member.wait(20) == 0
    assert 0.9 < time.monotonic() - began_s < 6.0
    assert (tmp_path / "undone").exists()


def ask_short(member: subprocess.Popen[bytes]) -> int:
    """Have it serve a request that ends at once; returns the process that did."""
    assert member.stdin
    assert member.stdout
    member.stdin.write(render_line(Beat()) + render_line(Request(verb="short", host="hoff", document=raw("{}"))))
    member.stdin.flush()
    said = parse_line(member.stdout.readline())
    assert isinstance(said, Result)
    return int(read(Changes, said.document).host)


def test_one_request_after_the_other_is_served_each_by_a_process_of_its_own(idle: subprocess.Popen[bytes]) -> None:
    served = [ask_short(idle) for _ in range(3)]
    assert len({*served, idle.pid}) == 4
    assert idle.stdin
    idle.stdin.close()
    assert idle.wait(20) == 0


def test_one_that_failed_serves_the_next(idle: subprocess.Popen[bytes]) -> None:
    assert idle.stdin
    assert idle.stdout
    idle.stdin.write(render_line(Request(verb="fail", host="hoff", document=raw("{}"))))
    idle.stdin.flush()
    assert parse_line(idle.stdout.readline()).kind == "error"
    ask_short(idle)


def test_one_that_is_asked_nothing_more_ends_in_silence(idle: subprocess.Popen[bytes]) -> None:
    ask_short(idle)
    assert idle.wait(20) == 0
    assert idle.stdout
    assert idle.stdout.read() == b""


def test_a_process_that_is_killed_while_it_serves_ends_the_other(
    member: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (child,) = Path(f"/proc/{member.pid}/task/{member.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGKILL)
    assert member.wait(20) == 1, "and Unanswered is told by its traceback here"
    assert not (tmp_path / "undone").exists()


def test_a_process_that_ends_without_an_answer_ends_the_other(idle: subprocess.Popen[bytes]) -> None:
    assert idle.stdin
    idle.stdin.write(render_line(Request(verb="mute", host="hoff", document=raw("{}"))))
    idle.stdin.flush()
    assert idle.wait(20) == 1


def test_a_process_that_serves_undoes_what_it_began_when_the_other_is_killed(
    member: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    member.kill()
    assert member.stdout
    member.stdout.read()  # until that one has ended too
    assert (tmp_path / "undone").read_text() == "0"


def test_both_processes_told_to_end_undo_once(member: subprocess.Popen[bytes], tmp_path: Path) -> None:
    os.killpg(member.pid, signal.SIGTERM)
    assert member.wait(20) != 0
    assert (tmp_path / "undone").read_text() == "0"


def test_a_second_request_while_one_is_served_ends_both(member: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert member.stdin
    member.stdin.write(REQUEST * 2)
    member.stdin.flush()
    assert member.wait(20) == 0
    assert (tmp_path / "undone").read_text() == "0"


def test_one_that_is_told_to_end_has_what_is_served_undone(member: subprocess.Popen[bytes], tmp_path: Path) -> None:
    member.terminate()
    assert member.wait(20) != 0
    assert (tmp_path / "undone").read_text() == "0"


# of which older controllers sent the second one together with the first one
FOLLOWED = REQUEST + REQUEST.replace(b'"request"', b'"following"')


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\n", render_line(NoteSaid(text="x")), b"", FOLLOWED])
def test_what_is_no_request_is_refused_in_words_and_served_by_no_half(tmp_path: Path, said: bytes) -> None:
    code = (
        "from gpuprov.cli import session; from gpuprov.cli.main import main; from pathlib import Path; import sys\n"
        f"session.log_folder = lambda *_, **__: Path({str(tmp_path)!r})\n"
        "sys.exit(main(['member']))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=said, capture_output=True, check=False)
    hello, error = [*Lines().feed(done.stdout)]
    assert isinstance(hello, Hello)
    assert (hello.protocol, hello.version) == (PROTOCOL, __version__), "an older one refuses it"
    assert isinstance(error, Failure)
    assert error.fix
    assert done.returncode in (2, 6)
