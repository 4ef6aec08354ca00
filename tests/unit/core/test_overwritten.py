"""Lines that overwrite themselves."""

from __future__ import annotations

import pytest

from gpuprov.core.overwritten import Overwritten


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["plain\n", "text"], "plain\ntext"),
        (["\rstep 1\rstep 2\rstep 3\n"], "step 3\n"),
        (["dos\r\nlines\r\n"], "dos\nlines\n"),
        (["odd\r\r\n"], "odd\n"),
        (["50 %\r", "\n"], "50 %\n"),
        (["50 %\r", "100 %\n"], "50 %\n100 %\n"),
        (["5", "0 %\r100 %\n"], "5\n100 %\n"),
        (["a\n\rb", "\rc\n"], "a\nb\nc\n"),
        (["", "\r", ""], ""),
    ],
)
def test_the_last_text_of_a_line_stays(pieces: list[str], shown: str) -> None:
    lines = Overwritten()
    assert "".join(map(lines.take, pieces)) == shown
