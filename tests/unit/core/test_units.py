"""Amounts as people write and read them."""

from __future__ import annotations

import pytest

from gpuprov.core.units import render_duration, render_size


@pytest.mark.parametrize(
    ("seconds", "both", "one"),
    [
        (-5, "0s", "0s"),
        (59.9, "59s", "59s"),
        (65, "1m05s", "1m"),
        (7500, "2h05m", "2h"),
        (86400 * 3 + 3600, "3d01h", "3d"),
    ],
)
def test_a_duration_has_its_largest_units(seconds: float, both: str, one: str) -> None:
    assert (render_duration(seconds), render_duration(seconds, units=1)) == (both, one)


@pytest.mark.parametrize(("count", "said"), [(1, "1 byte"), (12, "12 bytes"), (2048, "2.0 KiB"), (3 << 30, "3.0 GiB")])
def test_a_size_has_the_unit_that_people_say(count: int, said: str) -> None:
    assert render_size(count) == said
