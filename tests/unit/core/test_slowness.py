"""Limits grow with a machine's slowness, and never shrink."""

from __future__ import annotations

from itertools import count

import pytest

from gpuprov.core.slowness import measure_slowness, slowness
from gpuprov.verify.request import QUICK_TIMEOUT_S, Work


@pytest.mark.parametrize(("probe_s", "times"), [(0.001, 1.0), (0.01, 1.0), (0.03, 3.0), (5.0, 10.0)])
def test_it_is_how_long_a_piece_of_work_takes(probe_s: float, times: float) -> None:
    ticks = count()
    assert measure_slowness(lambda: next(ticks) * probe_s) == pytest.approx(times)


def test_the_best_try_counts() -> None:
    ends = iter((0.0, 0.5, 1.0, 1.02, 2.0, 2.9))
    assert measure_slowness(lambda: next(ends)) == pytest.approx(2.0)


def test_this_machine_has_one() -> None:
    assert 1.0 <= slowness() <= 10.0


def test_the_limit_of_a_node_follows_it_and_one_that_somebody_said_does_not() -> None:
    assert Work().timeout_s(1, slowness=4.0) == 4 * QUICK_TIMEOUT_S
    assert Work(limit_s=7.0).timeout_s(1, slowness=4.0) == 7.0
