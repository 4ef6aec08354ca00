"""The member's end: it ends when nobody listens, and only once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from gpuprov.host.remote.lines import Lines, parse_line, render_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUEST = render_line("request", verb="up", host="hoff", document={})
WORK = """
import os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.default_int_handler)
from gpuprov.host.remote.serve import MemberEnd, take_streams
end = MemberEnd(*take_streams())
end.greet("own")
folder = Path(sys.argv[1])
interrupts = 0
try:
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
def member(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-c", WORK, str(tmp_path), "1"]
    environment = {**os.environ, "GPUPROV_SILENCE_S": "10"}  # 1 s without a beat
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as running:
        assert running.stdin
        assert running.stdout
        assert parse_line(running.stdout.readline()).kind == "hello"
        running.stdin.write(REQUEST)
        running.stdin.flush()
        assert parse_line(running.stdout.readline()).kind == "note"
        yield running
        running.kill()


def test_closed_input_ends_it(member: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert member.stdin
    assert member.stdout
    member.stdin.close()
    said = [*Lines().feed(member.stdout.read())]
    assert (said[-1].kind, said[-1].content["exit_code"]) == ("error", 130)
    assert member.wait(20) == 0
    assert (tmp_path / "undone").read_text() == "0"


def test_both_ends_closed_interrupt_it_once(member: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert member.stdin
    assert member.stdout
    member.stdout.close()
    member.stdin.close()
    assert member.wait(20) == 0
    assert (tmp_path / "undone").read_text() == "0"


@pytest.mark.slow
def test_silence_ends_it_and_beats_keep_it(member: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert member.stdin
    for _ in range(6):
        member.stdin.write(render_line("beat"))
        member.stdin.flush()
        time.sleep(0.25)
    assert member.poll() is None
    assert not (tmp_path / "undone").exists()
    began_s = time.monotonic()
    assert member.wait(20) == 0
    assert 0.9 < time.monotonic() - began_s < 6.0
    assert (tmp_path / "undone").exists()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\n", render_line("note", text="x"), b""])
def test_what_is_no_request_is_refused_in_words(tmp_path: Path, said: bytes) -> None:
    code = (
        "from gpuprov.cli import session; from gpuprov.cli.main import main; from pathlib import Path; import sys\n"
        f"session.log_folder = lambda *_, **__: Path({str(tmp_path)!r})\n"
        "sys.exit(main(['member']))"
    )
    done = subprocess.run([sys.executable, "-c", code], input=said, capture_output=True, check=False)
    hello, error = [*Lines().feed(done.stdout)]
    assert hello.kind == "hello"
    assert error.kind == "error"
    assert error.content["fix"]
    assert done.returncode in (2, 6)
