from __future__ import annotations

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.spec.scalar import parse_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("128", 128),
        ("-1", -1),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("2.", 2.0),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("True", "True"),
        ("2026-01-01", "2026-01-01"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("nan", "nan"),
        ("{n}", "{n}"),
        ("[1, 2]", "[1, 2]"),
        ("a: b", "a: b"),
        ("'12'", "12"),
        ('"a\\tb"', "a\tb"),
        ("''", ""),
        (" 1", " 1"),
    ],
)
def test_a_value_is_read_as_in_grids(text: str, value: object) -> None:
    found = parse_scalar(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("text", ["'", "'a' b", '"a', "1e999", "'a'\n---\n'b'", '"' + "x" * 1000])
def test_what_cannot_be_read_is_refused_in_three_short_parts(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_scalar(text)
    assert caught.value.evidence
    assert caught.value.fix
    assert len(caught.value.what) < 200
