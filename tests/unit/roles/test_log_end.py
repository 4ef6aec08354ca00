"""The end of a log begins at the beginning of a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from gpuprov.roles.work import log_end
from gpuprov.roles.work.log_end import read_end
from gpuprov.shapes.jobs import JobLog

if TYPE_CHECKING:
    from gpuprov.roles.work.job_controller import JobController

PIECE = 100


@dataclass
class Controller:
    log: bytes

    def read_log(self, _job: str, start: int) -> JobLog:
        content = self.log[start : start + PIECE]
        end = start + len(content)
        text = content.decode(errors="replace")
        size, whole = len(self.log), end >= len(self.log)
        return JobLog(id="7", state="done", start=start, text=text, next=end, size=size, whole=whole)


def end_of(log: str, tail: int | None = None) -> tuple[str, int | object]:
    pieces = read_end(cast("JobController", Controller(log.encode())), "7", tail=tail)
    return "".join(piece.text for piece in pieces), pieces[0].start


LINES = "".join(f"line {number}\n" for number in range(100))


@pytest.mark.parametrize(
    ("log", "tail", "expected"),
    [
        ("", 3, ""),
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\n", 5, "a\n"),
        (LINES, 1, "line 99\n"),
        (LINES, 50, LINES[LINES.index("line 50") :]),
        (LINES, 1000, LINES),
        (LINES, None, LINES),
        ("é" * 30 + "\nü\n", 1, "ü\n"),
    ],
)
@pytest.mark.parametrize("first", [20, 64, 10_000])
def test_as_many_lines_are_read_as_were_asked_for(
    log: str, tail: int | None, expected: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_end, "_FIRST_BYTES", first)
    text, start = end_of(log, tail)
    assert text == expected
    assert start == len(log.encode()) - len(expected.encode())


def test_what_is_cut_begins_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_end, "MOST_LOG_BYTES", 105)
    text, start = end_of(LINES)
    assert text.startswith("line 8")
    assert LINES.endswith(f"\n{text}")
    assert start == len(LINES) - len(text)
