"""The README's transcript is read, and what is not as it shows is found."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.suggestions import parse
from tests.transcript import is_as_shown, read_transcript

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_commands_and_lines_are_read() -> None:
    page = "Text\n\n    $ one\n    a\n\n    b\n    $ two\n\nText\n\n    make up\n\nText\n\n"
    page += "    $ three\n    $ four\n    ...\n"
    assert [(typed.command, typed.shown) for typed in read_transcript(page)] == [
        ("one", ("a", "", "b")),
        ("two", ()),
        ("three", ()),
        ("four", ("...",)),
    ]


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("a\nb\n", ("b", "a"), True),
        ("a\n", ("a", "b"), False),
        ("a\na\n", ("a",), False),
        ("", (), True),
        ("a\n\nb\n", ("a", "b"), True),
        ("NODE   STATE\n", ("NODE STATE",), True),
        ("at 2026-11-27T08:27:20Z on GPU-01234567\n", ("at 2025-01-01T00:00:00Z on GPU-89abcdef",), True),
        ("first\nmore\nlast\n", ("first", "...", "last"), True),
        ("first\nlast\n", ("first", "...", "last"), True),
        ("last\nfirst\n", ("first", "...", "last"), False),
        ("one two three\n", ("one two ...",), True),
        ("one three\n", ("one two ...",), False),
    ],
)
def test_what_is_printed_is_compared(printed: str, shown: tuple[str, ...], *, same: bool) -> None:
    assert is_as_shown(printed, shown) is same


def test_the_readmes_commands_are_understood() -> None:
    typed = [shlex.split(typed.command) for typed in read_transcript(README)]
    assert len(typed) > 10
    for program, *argv in typed:
        if program == "gpuprov":
            parse(argv)
