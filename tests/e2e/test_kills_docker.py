"""Killed anywhere, on Docker: the same as on LXD, at fewer steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.killing import SIGNALS
from tests.e2e.lives import LIVES, QUARTERS, Life, begin_life
from tests.e2e.places import sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.killing import How
    from tests.e2e.places import Place


@pytest.fixture(scope="module")
def life(gpuprov: Gpuprov, ledger: Ledger, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Life:
    return begin_life(gpuprov, ledger, place, tmp_path_factory.mktemp("kills"), engine="docker", role="slurm")


@pytest.fixture(scope="module")
def plain(gpuprov: Gpuprov, ledger: Ledger, place: Place, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """The same life without Slurm, whose nodes are there much sooner."""
    return begin_life(gpuprov, ledger, place, tmp_path_factory.mktemp("kills"), engine="docker", role="plain")


@pytest.fixture(autouse=True)
def nothing_is_left(gpuprov: Gpuprov, place: Place) -> Iterator[None]:
    """A round that fails does not spoil the next."""
    yield
    gpuprov("cluster", "down", place.cluster, "--engine", "docker")
    sweep(place)


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
