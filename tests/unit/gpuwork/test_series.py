"""What `main` may return, and what becomes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from gpuwork.grid.series import WrongResult, as_series, read_series, write_series

if TYPE_CHECKING:
    from pathlib import Path


def pandas_series(name: object, **pairs: object) -> object:
    """What of a pandas.Series is used."""
    return SimpleNamespace(name=name, items=pairs.items)


class Scalar:
    """A number of numpy, or a tensor with one element."""

    def item(self) -> float:
        return 0.25


def test_a_list_of_series_a_dictionary_of_numbers_and_nothing() -> None:
    assert as_series(None) == {}
    assert as_series([pandas_series("loss", a=0.5, b=Scalar())]) == {"loss": [("a", "0.5"), ("b", "0.25")]}
    assert as_series({"loss": 1, "good": True, "curve": [1.5, Scalar()]}) == {
        "loss": [("0", "1")],
        "good": [("0", "True")],
        "curve": [("0", "1.5"), ("1", "0.25")],
    }


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (3, "main returned an object of type int"),
        ("text", "main returned an object of type str"),
        ([1, 2], "with the name None"),
        ([pandas_series(None)], "with the name None"),
        ([pandas_series("../../etc/cron.d/x")], "with the name '../../etc/cron.d/x'"),
        ([pandas_series("a"), pandas_series("a")], "two series with the name 'a'"),
        ({"a": "text"}, "returned an object of type str for 'a'"),
        ({"a": {}}, "returned an object of type dict for 'a'"),
        ({1: 2}, "with the name 1"),
    ],
)
def test_whatever_else_it_returns_is_refused_in_words(returned: object, words: str) -> None:
    with pytest.raises(WrongResult, match=words.replace(".", r"\.")):
        as_series(returned)


def test_series_are_files_and_come_back(tmp_path: Path) -> None:
    write_series({"loss": [("1", "0.5"), ('two, "2"', "0.25")]}, tmp_path)
    text = (tmp_path / "loss.csv").read_text()
    assert text == 'index,loss\n1,0.5\n"two, ""2""",0.25\n'
    assert read_series(text.splitlines()) == [("1", "0.5"), ('two, "2"', "0.25")]
    with pytest.raises(ValueError, match="two columns"):
        read_series(["a,b,c"])
