from __future__ import annotations

import pytest

from gpuprov.host.remote.lines import BadLine, Lines, parse_line, render_line


def test_what_is_rendered_is_what_is_parsed() -> None:
    line = render_line("error", what="w", evidence="é\n", fix="", exit_code=4)
    assert line.count(b"\n") == 1
    message = parse_line(line)
    assert (message.kind, message.content) == (
        "error",
        {"what": "w", "evidence": "é\n", "fix": "", "exit_code": 4},
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "not JSON"),
        (b"Welcome to Debian", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"kind":"result","document":{"x":NaN}}', "not JSON"),
        (b"[1]", "no line of this protocol"),
        (b'{"kind":["beat"]}', "no line of this protocol"),
        (b'{"kind":"shell"}', "no line of this protocol"),
        (b'{"kind":"beat","x":1}', "has no keys"),
        (b'{"kind":"note"}', "has text"),
        (b'{"kind":"note","text":7}', "is not str"),
        (b'{"kind":"hello","protocol":true,"version":"1","host":"h"}', "is not int"),
        (b'{"kind":"result","document":[]}', "is not dict"),
    ],
)
def test_all_else_is_refused(line: bytes, why: str) -> None:
    with pytest.raises(BadLine, match=why):
        parse_line(line)


def test_lines_come_in_any_pieces() -> None:
    said = render_line("note", text="a") + render_line("beat") + render_line("note", text="b")
    for size in (1, 7, len(said)):
        lines = Lines()
        found = [message for at in range(0, len(said), size) for message in lines.feed(said[at : at + size])]
        assert [message.content.get("text") for message in found] == ["a", None, "b"]


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
            list(lines.feed(render_line("beat")))
