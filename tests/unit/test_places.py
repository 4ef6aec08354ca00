"""The end-to-end tests' names and networks come from one table, so that two modules cannot share any."""

from __future__ import annotations

import re
from pathlib import Path

from tests.e2e.groups import module_of
from tests.e2e.places import MODULES, PLACES

E2E = Path(__file__).parents[1] / "e2e"
SHARED = ("10.78.3.", "10.78.5.")  # of the cluster that all modules share


def test_no_two_places_share_a_name_or_a_subnet() -> None:
    for place in PLACES.values():
        for other in PLACES.values():
            if other is not place:
                assert place.subnet(3) != other.subnet(0)
                assert not other.node(0).startswith(place.mark)
                assert other.cluster != place.cluster
    assert len({place.subnet(number) for place in PLACES.values() for number in range(4)}) == 4 * len(MODULES)


def test_a_module_finds_its_place_by_its_own_name() -> None:
    """Else it would be in another group than those that share its place."""
    for path in E2E.glob("test_*.py"):
        for name in re.findall(r"PLACES\[\"(\w+)\"\]", path.read_text()):
            assert name.startswith(module_of(f"/{path.name}")), path.name


def test_no_module_has_addresses_or_links_of_its_own() -> None:
    for path in E2E.glob("*.py"):
        text = path.read_text()
        if path.name != "places.py":
            found = [address for address in re.findall(r"10\.78\.\d+\.", text) if address not in SHARED]
            assert not found, f"{path.name}: take them from tests/e2e/places.py"
            assert not re.findall(r"gpte(?!2e\b|b[01]\b|\b)\w*", text), f"{path.name}: take it from tests/e2e/places.py"


def test_no_place_that_others_are_beside_has_a_mark_that_begins_their_names() -> None:
    """What begins with its mark goes with it."""
    beside = [
        name for name, place in PLACES.items() if any(one.cluster.startswith(place.mark) for one in PLACES.values())
    ]
    assert beside == ["kills_incus"], "which has the machine to itself"
