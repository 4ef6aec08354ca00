"""Which host a node goes to: every rule of `place` with data, and what holds for any plan."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.placement import Place, place
from gpuprov.core.errors import UsageError
from gpuprov.gpu.allocate import Claims, Lease, LeaseRequest, allocate
from gpuprov.gpu.observe import observe
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuprov.gpu.models import Gpu, HostGpus
    from gpuprov.spec.models import Sharing

PLANS = 2000
SHARINGS: tuple[Sharing, ...] = ("shared", "exclusive")


@cache
def gpus_of(name: str) -> HostGpus:
    """Four simulated GPUs whose UUIDs no other host has."""
    return observe(root=NOWHERE, mode="simulated", simulated_count=4, seed=f"{ord(name):08x}")


def host_of(name: str, count: int, *leases: Lease, elsewhere: Sequence[Lease] = ()) -> Place:
    """A host with simulated GPUs of its own, and what its nodes hold."""
    gpus = replace(gpus_of(name), gpus=gpus_of(name).gpus[:count])
    return Place(host=name, gpus=gpus, leases=leases, claims=Claims(engine="lxd", leases=tuple(elsewhere)))


def uuid(host: str, index: int) -> str:
    return gpus_of(host).units[index].uuid


def held(node: str, *gpus: str, sharing: Sharing = "shared") -> Lease:
    return Lease(node=node, gpus=gpus, sharing=sharing)


def requests(count: int, *, sharing: Sharing = "shared", size: int = 1) -> list[LeaseRequest]:
    return [LeaseRequest(node=f"c{n:03d}", sharing=sharing, count=size) for n in range(count)]


def test_one_host_gets_all_however_many() -> None:
    assert place(requests(9, sharing="exclusive"), [host_of("a", 2)]) == {f"c{n:03d}": "a" for n in range(9)}
    assert place(requests(1), [host_of("a", 0)]) == {"c000": "a"}
    assert place([], [host_of("a", 2)]) == {}


@pytest.mark.parametrize("sharing", ["shared", "exclusive"])
def test_the_host_with_the_most_left_is_next_and_of_equal_ones_the_first(sharing: Sharing) -> None:
    places = [host_of("a", 1), host_of("b", 4), host_of("c", 2)]
    assert "".join(place(requests(8, sharing=sharing), places).values()) == "bbbcabca"
    assert "".join(place(requests(8, sharing=sharing), places[::-1]).values()) == "bbcbcbac"


def test_a_request_counts_with_all_its_gpus() -> None:
    places = [host_of("a", 1), host_of("b", 4), host_of("c", 2)]
    assert "".join(place(requests(3, size=2), places).values()) == "bbc"
    assert "".join(place(requests(3, size=0), places).values()) == "bbb"


def test_who_holds_gpus_stays_where_it_is() -> None:
    places = [host_of("a", 1, held("c001", uuid("a", 0))), host_of("b", 4)]
    assert place(requests(3), places) == {"c000": "b", "c001": "a", "c002": "b"}
    assert place(requests(3, sharing="exclusive", size=2), places)["c001"] == "a"


def test_growing_moves_nothing() -> None:
    sizes = {"a": 1, "b": 4, "c": 2}
    before: dict[str, str] = {}
    for count in range(1, 12):
        places = [
            host_of(name, size, *(held(node, uuid(name, 0)) for node, home in before.items() if home == name))
            for name, size in sizes.items()
        ]
        after = place(requests(count), places)
        assert {node: after[node] for node in before} == before
        before = after


def test_exclusive_needs_gpus_without_holders_and_shared_those_without_an_exclusive_one() -> None:
    shared = host_of("a", 3, *(held("x", uuid("a", n)) for n in range(3)))
    exclusive = host_of("b", 3, *(held(f"y{n}", uuid("b", n), sharing="exclusive") for n in range(2)))
    assert place(requests(1), [exclusive, shared]) == {"c000": "a"}
    assert place(requests(1, sharing="exclusive"), [shared, exclusive]) == {"c000": "b"}


def test_what_another_engine_holds_is_held() -> None:
    busy = host_of("a", 4, elsewhere=[held("job-1", *(uuid("a", n) for n in range(4)), sharing="exclusive")])
    assert place(requests(1), [busy, host_of("b", 1)]) == {"c000": "b"}


def test_what_another_engine_holds_by_a_gpu_s_earlier_uuid_is_held() -> None:
    earlier = f"GPU-51515151{uuid('a', 0)[12:]}"
    assert earlier != uuid("a", 0)
    other = held("d000", earlier, sharing="exclusive")
    places = [host_of("a", 1, elsewhere=[other]), host_of("b", 1)]
    assert place(requests(1, sharing="exclusive"), places) == {"c000": "b"}


@pytest.mark.parametrize("index", range(4))
def test_named_gpus_are_where_they_are(index: int) -> None:
    named = LeaseRequest(node="c000", sharing="shared", wanted=(uuid("b", index),))
    among = LeaseRequest(node="c000", sharing="shared", among=(uuid("b", index),))
    for request in (named, among):
        assert place([request], [host_of("a", 4), host_of("b", 4)]) == {"c000": "b"}


def random_plan(dice: random.Random) -> tuple[list[LeaseRequest], list[Place]]:
    """Hosts of any size, some GPUs held by nodes that may be requested again, and requests of any kind."""
    places: list[Place] = []
    for name in "abcd"[: dice.randint(1, 4)]:
        count = dice.randint(0, 4)
        leases: list[Lease] = []
        for index in range(count):
            if dice.random() < 0.4:
                node = f"c{dice.randint(0, 9):03d}" if dice.random() < 0.5 else f"x-{name}{index}"
                taken = {lease.node for one in places for lease in one.leases} | {lease.node for lease in leases}
                sharing = dice.choice(SHARINGS)
                leases += [held(node, uuid(name, index), sharing=sharing)] if node not in taken else []
        places.append(host_of(name, count, *leases))
    units = [unit.uuid for one in places for unit in one.gpus.units]
    asked = []
    for number in range(dice.randint(0, 10)):
        wanted = tuple(dice.sample(units, 1)) if units and dice.random() < 0.2 else ()
        among = tuple(dice.sample(units, dice.randint(1, len(units)))) if units and dice.random() < 0.2 else None
        request = LeaseRequest(
            node=f"c{number:03d}", sharing=dice.choice(SHARINGS), count=dice.randint(0, 2), wanted=wanted, among=among
        )
        asked.append(request)
    return asked, places


def grant(asked: Sequence[LeaseRequest], places: Sequence[Place], placed: dict[str, str]) -> dict[str, tuple[Gpu, ...]]:
    """What the hosts give, each to the nodes placed on it; a host that refuses gives nothing."""
    given: dict[str, tuple[Gpu, ...]] = {}
    for one in places:
        mine = [request for request in asked if placed[request.node] == one.host]
        with suppress(UsageError):
            given |= allocate(one.gpus, one.leases, mine, claims=one.claims)
    return given


def test_any_plan_gives_each_node_one_host_and_no_exclusive_gpu_twice() -> None:
    dice = random.Random(11)
    granted = 0
    for _ in range(PLANS):
        asked, places = random_plan(dice)
        placed = place(asked, places)
        assert list(placed) == [request.node for request in asked]
        assert set(placed.values()) <= {one.host for one in places}
        homes = {lease.node: one.host for one in places for lease in one.leases}
        assert all(placed[node] == home for node, home in homes.items() if node in placed)
        given = grant(asked, places, placed)
        granted += len(given)
        stay = [lease for one in places for lease in one.leases if lease.node not in given]
        holders = Counter(unit.uuid for units in given.values() for unit in units)
        holders.update(uuid for lease in stay for uuid in lease.gpus)
        alone = {
            unit.uuid for request in asked if request.sharing == "exclusive" for unit in given.get(request.node, ())
        }
        alone |= {uuid for lease in stay if lease.sharing == "exclusive" for uuid in lease.gpus}
        assert {uuid: holders[uuid] for uuid in alone if holders[uuid] != 1} == {}
    assert granted > PLANS


def test_nodes_of_one_gpu_are_refused_only_where_all_hosts_together_have_too_few() -> None:
    dice = random.Random(12)
    for _ in range(PLANS):
        places = [host_of(name, dice.randint(0, 4)) for name in "abcd"[: dice.randint(1, 4)]]
        asked = requests(dice.randint(0, 12), sharing="exclusive")
        given = grant(asked, places, place(asked, places))
        enough = len(asked) <= sum(len(one.gpus.units) for one in places)
        assert (len(given) == len(asked)) == enough
