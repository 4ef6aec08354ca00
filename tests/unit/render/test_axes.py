"""Ticks are round, around the values, and never all at one place."""

from __future__ import annotations

import pytest

from gpuprov.render.axes import BOTTOM, LEFT, RIGHT, TOP, Tick, axes_around, ticks


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


def test_values_lie_between_the_margins() -> None:
    axes = axes_around([(0.0, 10.0), (100.0, 30.0), (50.0, 20.0)], width=400, height=200)
    assert (axes.x(0), axes.x(100), axes.x(50)) == (LEFT, 400 - RIGHT, (LEFT + 400 - RIGHT) / 2)
    assert (axes.y(10), axes.y(30), axes.y(20)) == (200 - BOTTOM, TOP, (200 - BOTTOM + TOP) / 2)
    assert axes.columns[0] == Tick(at=LEFT, label="0")
    assert [tick.label for tick in axes.rows] == ["10", "15", "20", "25", "30"]


def test_one_point_has_axes_too() -> None:
    axes = axes_around([(3.0, 3.0)], width=400, height=200)
    assert (axes.x(3.0), axes.y(3.0)) == (LEFT, 200 - BOTTOM)
