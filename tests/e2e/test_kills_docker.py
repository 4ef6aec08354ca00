"""Killed anywhere, on Docker: the same as on LXD, at fewer steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.killing import SIGNALS
from tests.e2e.lives import LIVES, QUARTERS, Life, life_of, sweeping

if TYPE_CHECKING:
    from tests.e2e.killing import How


life = life_of(engine="docker", role="slurm")
plain = life_of(engine="docker", role="plain")
nothing_is_left = sweeping("docker")


@pytest.mark.long  # tests/contract/test_docker_kills.py has every request of a node's life
def test_a_round_of_kills(life: Life) -> None:
    life.die_half_way(SIGNALS)


@pytest.mark.long
@pytest.mark.parametrize("quarter", range(len(QUARTERS)))
@pytest.mark.parametrize("how", SIGNALS)
def test_at_any_time(plain: Life, how: How, quarter: int) -> None:
    plain.die_at_any_time(how, quarter, LIVES)


@pytest.mark.long
@pytest.mark.parametrize("number", range(0, 21, 4))
def test_more_rounds_of_kills(life: Life, number: int) -> None:
    life.die_in(number, SIGNALS)


@pytest.mark.long
@pytest.mark.parametrize("number", [2, 5, 8])
def test_the_engine_is_killed(plain: Life, number: int) -> None:
    plain.die_in(number, ("engine",))
