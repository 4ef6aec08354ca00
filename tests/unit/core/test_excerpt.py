from __future__ import annotations

import pytest

from gpuprov.core.errors import GpuprovError
from gpuprov.core.excerpt import LINE, LINES, WORDS, end_and_causes, excerpt, few, first_lines, shorten
from gpuprov.shapes.faults import Fault
from gpuprov.spec.spec_error import SpecError


@pytest.mark.parametrize("text", ["", "gpuprov cluster up -n 4", "Zürich 東京", "x" * WORDS])
def test_what_is_short_stays(text: str) -> None:
    assert excerpt(text) == shorten(text) == text


@pytest.mark.parametrize("letter", ["x", "\x1b", "\n", "\U000e0001"])
@pytest.mark.parametrize("limit", [0, 5, 40, 200])
def test_an_excerpt_is_one_line_and_never_longer_than_its_limit(letter: str, limit: int) -> None:
    said = excerpt(letter * 70_000, limit)
    assert len(said) <= limit
    assert said.isprintable()


def test_beginning_and_end_are_kept_for_the_end_says_what_is_wrong() -> None:
    said = shorten(f"'{'x' * 70_000}' is not a valid node name")
    assert len(said) == LINE
    assert said.startswith("'xxx")
    assert "x [... 70027 characters ...] x" in said
    assert said.endswith("x' is not a valid node name")


def test_lines_are_cut_one_by_one_and_their_number_is_limited() -> None:
    short, long = shorten(f"short\n{'y' * 5000}").split("\n")
    assert (short, len(long)) == ("short", LINE)
    many = shorten("\n".join(map(str, range(10_000)))).split("\n")
    assert (many[0], many[LINES // 2], many[-1]) == ("0", f"[... {10_000 - LINES} lines ...]", "9999")
    assert len(many) == LINES + 1


@pytest.mark.parametrize(
    ("names", "line", "lines"),
    [
        ([], "", ""),
        (["a", "b"], "a; b", "a\nb"),
        (["a", "b", "c", "d"], "a; b and 2 more", "a\nb\nand 2 more"),
    ],
)
def test_of_many_the_first_are_named_and_the_others_counted(names: list[str], line: str, lines: str) -> None:
    assert few(names, 2, between="; ") == line
    assert few(names, 2) == line.replace("; ", ", ")
    assert first_lines(names, 2) == lines


def test_every_error_is_short_whatever_it_quotes() -> None:
    long = "x" * 70_000
    problems = tuple(Fault(file="spec", where=f"nodes.mounts[{number}]", message=long) for number in range(1000))
    for error in (GpuprovError(long, evidence=long, fix=long), SpecError(long, problems=problems, fix=long)):
        assert len(error.what) <= LINE
        assert len(error.fix) <= LINE
        assert len(error.evidence) <= (LINES + 1) * (LINE + 1)
        assert long not in "".join(map(str, error.args))


LIST = [f" /var/cache/apt/p{number}.deb" for number in range(60)]


@pytest.mark.parametrize("text", ["", "one", "\n".join(LIST[:9])])
def test_few_lines_are_all_told(text: str) -> None:
    assert end_and_causes(text, 9) == text.strip()


def test_what_came_last_is_told_and_the_error_above_it() -> None:
    said = [
        "Unpacking p1 ...",
        "dpkg: error processing p1",
        " cannot write: No space left on device",
        *LIST,
        "E: failed",
    ]
    told = end_and_causes("\n".join(said), 9).splitlines()
    assert told[:3] == ["dpkg: error processing p1", " cannot write: No space left on device", "[...]"]
    assert told[3:] == [*LIST[-4:], "E: failed"]
    assert len(told) <= 9


def test_a_disk_that_is_full_comes_before_other_errors() -> None:
    said = [*(f"E: other {number}" for number in range(20)), "tar: ./x: No space left on device", *LIST]
    told = end_and_causes("\n".join(said), 9).splitlines()
    assert "tar: ./x: No space left on device" in told
    assert len(told) <= 9


def test_lines_without_an_error_are_told_from_the_end() -> None:
    assert end_and_causes("\n".join(LIST), 9).splitlines() == LIST[-9:]
