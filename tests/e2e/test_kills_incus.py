"""Killed anywhere, on Incus: the same as on LXD, whose driver it has, at fewer steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.killing import SIGNALS
from tests.e2e.lives import Life, begin_life, sweeping

if TYPE_CHECKING:
    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov
    from tests.e2e.places import Place


nothing_is_left = sweeping("incus")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def life(
    gpuprov: Gpuprov,
    ledger: Ledger,
    place: Place,
    tmp_path_factory: pytest.TempPathFactory,
    incus: Any,  # noqa: ARG001 - it is there
) -> Life:
    return begin_life(gpuprov, ledger, place, tmp_path_factory.mktemp("kills"), engine="incus", role="plain")


def test_a_round_of_kills(life: Life) -> None:
    life.die_half_way(SIGNALS)


@pytest.mark.parametrize("number", range(0, 21, 4))
def test_more_rounds_of_kills(life: Life, number: int) -> None:
    life.die_in(number, SIGNALS)


@pytest.mark.parametrize("number", [2, 5, 8])
def test_the_engine_is_killed(life: Life, number: int) -> None:
    life.die_in(number, ("engine",))
