from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import TimedOut
from gpuprov.core.execution import CommandFailed, CommandMissing, CommandStopped, run, run_attached, run_followed
from gpuprov.core.follower import Ear, Follower
from gpuprov.core.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_a_command_gives_its_streams_and_status() -> None:
    done = run(python("import sys; print('out'); print('err', file=sys.stderr)"), timeout_s=20)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert done.seconds > 0


def test_stdin_environment_and_folder_reach_it(tmp_path: Path) -> None:
    code = "import os,sys; print(sys.stdin.read(), os.environ['GP'], os.getcwd(), bool(os.environ['PATH']))"
    done = run(python(code), timeout_s=20, environment={"GP": "x"}, cwd=tmp_path, stdin="hello")
    assert done.stdout == f"hello x {os.path.realpath(tmp_path)} True\n"


def test_a_failure_shows_the_command_and_the_end_of_what_it_said() -> None:
    code = "import sys; [print('line', n, file=sys.stderr) for n in range(100)]; sys.exit(3)"
    with pytest.raises(CommandFailed) as caught:
        run(python(code), timeout_s=20)
    assert "exit status 3" in caught.value.what
    assert caught.value.evidence.endswith("line 99")
    assert "line 50" not in caught.value.evidence
    assert sys.executable in caught.value.fix
    assert caught.value.exit_code == 3


def test_a_failure_can_be_left_to_the_caller() -> None:
    assert run(python("raise SystemExit(4)"), timeout_s=20, check=False).exit_code == 4


def test_a_missing_program_is_named() -> None:
    with pytest.raises(CommandMissing, match="gpuprov-no-such-program") as caught:
        run(["gpuprov-no-such-program"], timeout_s=1)
    assert caught.value.exit_code == 3
    assert caught.value.fix
    with pytest.raises(CommandMissing):
        run_attached(["gpuprov-no-such-program"])


def test_bytes_that_are_not_utf_8_do_not_break_it() -> None:
    done = run(python(r"import sys; sys.stdout.buffer.write(b'a\xffb')"), timeout_s=20)
    assert done.stdout == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.slow
def test_a_timeout_ends_the_command_and_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    started = time.monotonic()
    with pytest.raises(TimedOut) as caught:
        # The child holds the pipes: killing only the shell would leave us waiting for it.
        run(["sh", "-c", f"echo begun >&2; sleep 60 & echo $! > {pid_file}; wait"], timeout_s=0.5)
    assert time.monotonic() - started < 20
    assert caught.value.evidence.endswith("begun")
    assert gone(int(pid_file.read_text()))


def test_a_command_that_is_ended_may_tidy_up(tmp_path: Path) -> None:
    script = f"trap 'touch {tmp_path}/tidied; exit 1' TERM; while :; do sleep 0.05; done"
    with pytest.raises(TimedOut):
        run(["sh", "-c", script], timeout_s=0.3)
    assert (tmp_path / "tidied").exists()


@pytest.mark.slow
def test_a_command_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.core.execution.GRACE_S", 0.2)
    started = time.monotonic()
    with pytest.raises(TimedOut):
        run(["sh", "-c", "trap '' TERM; sleep 60"], timeout_s=0.3)
    assert time.monotonic() - started < 20


@pytest.mark.slow
def test_a_command_that_cannot_be_killed_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuprov.core.execution.GRACE_S", 0.1)
    monkeypatch.setattr("gpuprov.core.execution.KILLED_S", 0.1)
    monkeypatch.setattr("gpuprov.core.execution._signal_group", lambda *_: None)  # as in a call of a driver that hangs
    with pytest.raises(TimedOut) as caught:
        run(python("import time; time.sleep(60)"), timeout_s=0.1)
    assert "cannot be killed" in caught.value.evidence
    pid = int(caught.value.evidence.partition("process ")[2].split()[0])
    os.kill(pid, signal.SIGKILL)  # it was not waited for
    assert gone(pid)


def gone(pid: int) -> bool:
    """Whether a process ends soon; one that nobody has waited for yet counts as ended."""
    stat = Path(f"/proc/{pid}/stat")
    for _ in range(100):
        try:
            state = stat.read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_an_attached_command_gives_its_status() -> None:
    assert run_attached(python("raise SystemExit(5)")) == 5


SPEAKS = "import sys, time; print('one', flush=True); time.sleep({}); print('two', file=sys.stderr)"


def test_what_a_followed_command_says_is_heard_while_it_runs_and_the_last_words_when_it_ends(tmp_path: Path) -> None:
    heard: list[str] = []

    def hear(lines: Sequence[str]) -> None:
        heard.extend(lines)
        if "one" in lines:
            (tmp_path / "go-on").touch()

    waits = f"echo one; until [ -e {tmp_path}/go-on ]; do sleep 0.01; done; echo two >&2; printf three; exit 4"
    with pytest.raises(CommandFailed):
        run_followed(["sh", "-c", waits], limits=Limits(total_s=30), follower=Follower(hear=hear))
    assert heard == ["one", "three", "two"]
    done = run_followed(["echo", "at once"], limits=Limits(), follower=Follower(hear=hear))
    assert (done.stdout, heard[3:]) == ("at once\n", ["at once"])


def test_a_followed_command_is_ended_on_request(tmp_path: Path) -> None:
    stop = threading.Event()
    follower = Follower(hear=lambda lines: stop.set() if lines else None, stop=stop)
    code = f"import os, pathlib; pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))"
    with pytest.raises(CommandStopped):
        run_followed(python(f"{code}; {SPEAKS.format(600)}"), limits=Limits(), follower=follower)
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_a_followed_command_that_fails_or_is_silent_is_told_as_any_other() -> None:
    with pytest.raises(CommandFailed) as caught:
        run_followed(python("raise SystemExit('no')"), limits=Limits(), follower=Follower())
    assert caught.value.evidence.endswith("no")
    with pytest.raises(TimedOut, match=r"did nothing for 0\.2 s"):
        run_followed(["sleep", "600"], limits=Limits(silence_s=0.2), follower=Follower())


def test_only_new_and_complete_lines_of_each_stream_are_heard() -> None:
    ear = Ear()
    assert ear.new_lines(None, b"a\nb") == ["a"]
    assert ear.new_lines(b"x\n", b"a\nb\n") == ["x", "b"]
    assert ear.new_lines(b"x\n", b"a\nb\n") == []


def test_the_last_lines_are_found_in_what_python_has_made_of_the_bytes() -> None:
    ear = Ear()
    said = b"10 %\r20 %\r\n\xff\nc"
    assert ear.new_lines(said, None) == ["10 %", "20 %", "\N{REPLACEMENT CHARACTER}"]
    assert ear.last_lines("10 %\n20 %\n\N{REPLACEMENT CHARACTER}\nc", "err\n") == ["c", "err"]
