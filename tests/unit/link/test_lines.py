from __future__ import annotations

import pytest

from gpuprov.link.lines import BadLine, Lines, parse_line, render_line
from gpuprov.shapes.lines import Beat, Failure, NoteSaid


def test_what_is_rendered_is_what_is_parsed() -> None:
    line = render_line(Failure(what="w", evidence="é\n", fix="", exit_code=4))
    assert line.count(b"\n") == 1
    message = parse_line(line)
    assert message == Failure(what="w", evidence="é\n", fix="", exit_code=4)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "truncated"),
        (b"Welcome to Debian", "malformed"),
        (b"[" * 100_000, "no line"),
        (b"\xff\xfe", "malformed"),
        (b'{"kind":"result","document":{"x":NaN}}', "malformed"),
        (b"[1]", "got `array`"),
        (b'{"kind":["beat"]}', "Expected `str`"),
        (b'{"kind":"shell"}', "Invalid value 'shell'"),
        (b'{"kind":"beat","x":1}', "unknown field `x`"),
        (b'{"kind":"note"}', "missing required field `text`"),
        (b'{"kind":"note","text":7}', "Expected `str`"),
        (b'{"kind":"hello","protocol":true,"version":"1","host":"h"}', "Expected `int`"),
    ],
)
def test_all_else_is_refused(line: bytes, why: str) -> None:
    with pytest.raises(BadLine, match=why):
        parse_line(line)


def test_lines_come_in_any_pieces() -> None:
    said = render_line(NoteSaid(text="a")) + render_line(Beat()) + render_line(NoteSaid(text="b"))
    for size in (1, 7, len(said)):
        lines = Lines()
        found = [message for at in range(0, len(said), size) for message in lines.feed(said[at : at + size])]
        assert found == [NoteSaid(text="a"), Beat(), NoteSaid(text="b")]


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    lines = Lines(most_line_bytes=1000)
    with pytest.raises(BadLine, match="more than 1000 bytes"):
        for _ in range(11):
            assert list(lines.feed(b"x" * 100)) == []


def test_a_line_that_is_too_long_is_refused_where_it_comes_at_once_too() -> None:
    with pytest.raises(BadLine, match="more than 10 bytes: xxxxxxxxxxx"):
        list(Lines(most_line_bytes=10).feed(b"x" * 11))


def test_so_are_lines_without_end() -> None:
    lines = Lines(most_bytes=1000)
    with pytest.raises(BadLine, match="more was sent"):
        for _ in range(100):
            list(lines.feed(render_line(Beat())))
