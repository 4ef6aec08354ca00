from __future__ import annotations

import pytest

from gpuprov.core.nearest import ask_back, find_nearest

NODES = ("c000", "c001", "web", "jwork-000")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("c00", "c000"),
        ("c0001", "c001"),
        ("wbe", "web"),
        ("jwork-00", "jwork-000"),
        ("jwrok-000", "jwork-000"),
        ("c007", ""),
        ("jwork-009", ""),
        ("c900x", ""),
        ("nobody", ""),
        ("", ""),
    ],
)
def test_a_slip_is_told_from_another_name(typed: str, meant: str) -> None:
    found = find_nearest(typed, NODES)
    assert found == meant or (meant == "c000" and found == "c001")


def test_it_is_asked_for_all_names_together() -> None:
    assert ask_back(["wbe", "nobody", "jwork-00"], NODES) == "; did you mean web and jwork-000?"
    assert ask_back(["nobody"], NODES) == ""
    assert ask_back(["befor"], ["before"]) == "; did you mean before?"
