from __future__ import annotations

import json

import pytest

from gpuprov.core.printable import printable, printable_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("c000 läuft, 7 °C, 日本", "c000 läuft, 7 °C, 日本"),
        ("a\nb\tc", "a\nb\tc"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("a\rb\x08\x7f", r"a\rb\x08\x7f"),
        ("csi \x9b31m", r"csi \x9b31m"),
        ("abc\u202ecba\u2066", r"abc\u202ecba\u2066"),
        ("one\u2028two", r"one\u2028two"),
        ("half \udcff", r"half \udcff"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_would_do_more_than_stand_there_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_one_line_stays_one() -> None:
    assert printable("a\nb\tc", lines=False) == r"a\nb\tc"


def test_own_colours_stay_and_nothing_else_of_a_terminal_s_language() -> None:
    assert printable("\x1b[32mok\x1b[0m \x1b[2J\x1b[1A", styles=True) == "\x1b[32mok\x1b[0m \\x1b[2J\\x1b[1A"
    assert printable("\x1b[32mok\x1b[0m") == r"\x1b[32mok\x1b[0m"


@pytest.mark.parametrize("text", ["plain", "ü \x1b[2J", "\x9b2J \x7f", "\u202eabc", "\udcff", "\U000e0041"])
def test_json_stays_the_same_document(text: str) -> None:
    shown = printable_json(json.dumps({"said": [text]}, indent=2, ensure_ascii=False))
    assert json.loads(shown) == {"said": [text]}
    assert printable(shown) == shown
