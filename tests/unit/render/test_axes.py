"""Ticks are round, around the values, and never all at one place."""

from __future__ import annotations

import pytest

from gpuprov.render.axes import ticks


@pytest.mark.parametrize(
    ("highest", "lowest", "expected"),
    [
        (100, 0.0, [0, 50, 100]),
        (0, 0.0, [0, 1]),
        (3, 1, [1, 1.5, 2, 2.5, 3]),
        (-1, -3, [-3, -2.5, -2, -1.5, -1]),
        (5, 5, [5, 10]),
        (5e-324, 0.0, [0, 1]),
    ],
)
def test_known_ticks(highest: float, lowest: float, expected: list[float]) -> None:
    assert ticks(highest, lowest) == expected


@pytest.mark.parametrize(("highest", "lowest"), [(1e300, -1e300), (1e16 + 2, 1e16), (0.7, 0.69), (1e-280, 0)])
def test_they_hold_the_values_between_them(highest: float, lowest: float) -> None:
    found = ticks(highest, lowest)
    slack = 1e-12 * max(abs(highest), abs(lowest))
    assert found[0] - slack <= lowest < highest <= found[-1] + slack
    assert found[0] < found[-1]
    assert len(found) < 10
