"""Files of a running node are read and written by commands: what these may answer, however hostile the node is."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import EngineError, TimedOut
from gpuprov.drivers.base import File, Unreadable
from gpuprov.drivers.calls import Call, Intake, Output, Tail
from gpuprov.drivers.node_files import Absent, read_at_rest, read_in_node, write_in_node

if TYPE_CHECKING:
    from collections.abc import Callable


def answering(exit_code: int = 0, stdout: bytes = b"", stderr: bytes = b"") -> Callable[[Call], Output]:
    return lambda _call: Output(exit_code=exit_code, stdout=stdout, stderr=stderr)


def hanging(call: Call) -> Output:
    raise call.overdue(Output(exit_code=-1, stdout=b"", stderr=b""), node="c000")


def read(execute: Callable[[Call], Output]) -> bytes:
    return read_in_node(execute, "c000", "/etc/key", most_bytes=4, timeout_s=1.0)


def test_a_file_of_exactly_the_limit_is_read() -> None:
    assert read(answering(stdout=b"\0\xff\n1")) == b"\0\xff\n1"


@pytest.mark.parametrize(
    ("execute", "kind", "word"),
    [
        (answering(91), Absent, "no file /etc/key"),
        (answering(92), Unreadable, "not a file"),
        (answering(1, stderr=b"head: cannot open"), Unreadable, "cannot read"),
        (answering(127), Unreadable, "cannot read"),
        (answering(stdout=b"12345"), Unreadable, "too large"),
        (hanging, Unreadable, "cannot read"),
    ],
)
def test_everything_else_is_an_error_in_three_parts(
    execute: Callable[[Call], Output], kind: type[Unreadable], word: str
) -> None:
    with pytest.raises(kind, match=word) as caught:
        read(execute)
    assert caught.value.evidence
    assert "gpuprov rm c000" in caught.value.fix


def test_the_command_that_reads_has_limits_of_its_own() -> None:
    calls: list[Call] = []

    def execute(call: Call) -> Output:
        calls.append(call)
        return Output(exit_code=0, stdout=b"", stderr=b"")

    read(execute)
    (call,) = calls
    assert call.timeout_s == 1.0
    assert 4 < call.most_bytes < 100_000


def test_links_of_a_node_at_rest_are_followed_within_it_and_not_for_ever() -> None:
    links = {"/a": ("b", b""), "/b": ("../../c/d", b""), "/c/d": (None, b"x"), "/loop": ("loop", b"")}

    def look(path: str) -> tuple[str | None, bytes]:
        return links[path]

    assert read_at_rest(look, "c000", "/a", most_bytes=4) == b"x"
    with pytest.raises(Unreadable, match="not a file"):
        read_at_rest(look, "c000", "/loop", most_bytes=4)
    with pytest.raises(Unreadable, match="too large"):
        read_at_rest(look, "c000", "/a", most_bytes=0)


def test_files_are_written_by_one_command_with_owner_and_mode() -> None:
    calls: list[Call] = []

    def execute(call: Call) -> Output:
        calls.append(call)
        return Output(exit_code=0, stdout=b"", stderr=b"")

    file = File(path="/etc/munge/munge.key", content=b"k", mode=0o400, uid=64, gid=65)
    write_in_node(execute, "c000", [file, File(path="/x", content=b"")], then="echo after")
    (call,) = calls
    with tarfile.open(fileobj=io.BytesIO(call.stdin)) as tar:
        found = [(member.name, member.mode, member.uid, member.gid) for member in tar]
    assert found == [("etc/munge/munge.key", 0o400, 64, 65), ("x", 0o644, 0, 0)]
    assert call.timeout_s is not None
    assert "echo after" in call.argv[2]


@pytest.mark.parametrize(
    "execute", [answering(2, stderr=b"tar: x: Cannot open: Is a directory"), answering(137), hanging]
)
def test_a_file_that_cannot_be_written_is_named(execute: Callable[[Call], Output]) -> None:
    with pytest.raises(EngineError, match="/etc/hosts into c000") as caught:
        write_in_node(execute, "c000", [File(path="/etc/hosts", content=b"")])
    assert caught.value.evidence
    assert "gpuprov rm c000" in caught.value.fix


def test_output_is_taken_in_up_to_the_limit_of_both_streams_together() -> None:
    intake = Intake(5)
    assert intake.take("stdout", b"abc")
    assert intake.take("stderr", b"de")
    assert not intake.take("stdout", b"f" * 1_000_000)
    assert intake.full
    assert not intake.take("stderr", b"g")
    output = intake.output(0)
    assert (output.stdout, output.stderr) == (b"abc", b"de")


def test_the_errors_of_a_command_do_not_repeat_all_that_it_said_or_was() -> None:
    call = Call(argv=["python3", "-c", "x" * 100_000], timeout_s=1.0, most_bytes=9)
    output = Output(exit_code=0, stdout=b"y" * 100_000, stderr=b"")
    for error in (call.overdue(output, node="c000"), call.too_much(output, node="c000")):
        assert len(str(error)) < 5000
        assert "c000" in error.what
    with pytest.raises(TimedOut):
        call.judged(Output(exit_code=137, stdout=b"", stderr=b""), node="c000", elapsed_s=2.0)


def test_the_end_of_a_long_log() -> None:
    tail = Tail(3)
    for piece in (b"abcdefgh", b"", b"i\xff", b"k"):
        tail.take(piece)
    assert tail.text() == "i\N{REPLACEMENT CHARACTER}k"
