"""Which host a node goes to: every rule of `place_nodes` with data, and what holds for any plan."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from gpuprov.cluster.offer import make_offer
from gpuprov.cluster.placement import NODE_ROOM_BYTES, NoRoom, Place, place_nodes
from gpuprov.cluster.state import ClusterState
from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.core.units import GIB
from gpuprov.drivers.base import LABEL_CLUSTER, LABEL_FINGERPRINT, NodeState
from gpuprov.gpu.allocate import Claims, Lease, LeaseRequest, allocate, count_supply
from gpuprov.gpu.observe import observe
from gpuprov.gpu.spec_order import request_of_spec
from gpuprov.shapes.base import read, write
from gpuprov.shapes.cluster_spec import ClusterSpec, GpuSpec, HostSpec, NodesSpec, PlacementSpec
from gpuprov.shapes.members import Offer, Room
from gpuprov.spec.addressing import node_name
from tests.fakes.places import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpuprov.gpu.models import HostGpus
    from gpuprov.shapes.choices import Sharing
    from gpuprov.shapes.cluster_spec import Strategy

PLANS = 10_000
SHARINGS: tuple[Sharing, ...] = ("shared", "exclusive")
STRATEGIES: tuple[Strategy, ...] = ("spread", "pack", "fixed")


@cache
def gpus_of(host: str) -> HostGpus:
    """Four simulated GPUs whose UUIDs no other host has."""
    return observe(root=NOWHERE, mode="simulated", simulated_count=4, seed=f"{ord(host):08x}")


def uuid(host: str, index: int) -> str:
    return gpus_of(host).units[index].uuid


def held(node: str, *gpus: str, sharing: Sharing = "exclusive") -> Lease:
    return Lease(node=node, gpus=gpus, sharing=sharing)


def place_of(host: str, count: int, *leases: Lease, claims: Claims | None = None) -> Place:
    gpus = replace(gpus_of(host), gpus=gpus_of(host).gpus[:count])
    return Place(host=host, gpus=gpus, leases=leases, claims=claims or Claims(engine="lxd"))


def state_of(nodes: Sequence[str]) -> ClusterState:
    labels = {LABEL_CLUSTER: "lab", LABEL_FINGERPRINT: "x"}
    there = tuple(NodeState(name=name, status="running", labels=labels) for name in nodes)
    return ClusterState(name="lab", recorded=None, settled=None, nodes=there, others=(), networks=())


def spec_of(  # noqa: PLR0913 - what a test of placement varies
    hosts: str, *, strategy: Strategy = "spread", per_node: int = 1, sharing: Sharing = "exclusive",
    memory_gib: int | None = None, counts: Sequence[int] = (), model: str | None = None,
) -> ClusterSpec:  # fmt: skip
    quotas: Sequence[int | None] = counts or [None] * len(hosts)
    return ClusterSpec(
        hosts=tuple(HostSpec(name=host, nodes=count) for host, count in zip(hosts, quotas, strict=True)),
        placement=PlacementSpec(strategy=strategy),
        gpus=GpuSpec(per_node=per_node, sharing=sharing, model=model),
        nodes=NodesSpec(memory_gib=memory_gib),
    )


def names(count: int) -> list[str]:
    return [node_name("c", number) for number in range(count)]


def offers(spec: ClusterSpec, places: Sequence[Place], *, room: Room | None = None, most: int = 99) -> list[Offer]:
    found = []
    for place in places:
        nodes = [lease.node for lease in place.leases if lease.node.startswith("c")]
        found.append(make_offer(spec, state_of(nodes), place, room or Room(), most=most))
    return found


def written(placed: Mapping[str, str]) -> str:
    return "".join(placed.values())


@pytest.mark.parametrize(("strategy", "placed"), [("spread", "abbbcc"), ("pack", "aabbbb"), ("fixed", "abbbcc")])
def test_each_strategy_gives_each_host_consecutive_numbers(strategy: Strategy, placed: str) -> None:
    spec = spec_of("abc", strategy=strategy, counts=(1, 3, 2) if strategy == "fixed" else ())
    found = place_nodes(spec, names(6), offers(spec, [place_of("a", 2), place_of("b", 4), place_of("c", 3)]))
    assert list(found) == names(6)
    assert written(found) == placed


def test_spread_goes_by_the_gpus_that_are_free() -> None:
    busy = place_of("a", 4, *(held(f"x{n}", uuid("a", n)) for n in range(3)))
    spec = spec_of("ab")
    assert written(place_nodes(spec, names(3), offers(spec, [busy, place_of("b", 3)]))) == "abb"
    shared = spec_of("ab", sharing="shared")
    loaded = place_of("a", 2, *(held(f"x{n}", uuid("a", 0), uuid("a", 1), sharing="shared") for n in range(2)))
    assert written(place_nodes(shared, names(2), offers(shared, [loaded, place_of("b", 2)]))) == "ab"
    assert written(place_nodes(shared, names(4), offers(shared, [loaded, place_of("b", 2)]))) == "aabb"
    assert written(place_nodes(shared, names(6), offers(shared, [loaded, place_of("b", 2)]))) == "aaabbb"


def test_spread_goes_by_the_gpus_that_the_cluster_itself_holds_first() -> None:
    spec = spec_of("ab", sharing="shared")
    others = place_of("a", 2, *(held(f"x{n}", uuid("a", n % 2), sharing="shared") for n in range(8)))
    own = place_of("b", 2, *(replace(held(f"c00{n}", uuid("b", n), sharing="shared"), cluster="lab") for n in range(2)))
    assert written(place_nodes(spec, names(4), offers(spec, [others, own]))) == "bbaa"


def test_nodes_without_gpus_are_spread_by_their_number() -> None:
    spec = spec_of("abc", per_node=0)
    places = [place_of("a", 4, held("c000")), place_of("b", 1), place_of("c", 0)]
    assert written(place_nodes(spec, names(6), offers(spec, places))) == "aabbcc"


@pytest.mark.parametrize(
    ("free", "count", "hosts"), [((1, 4, 2), 4, "b"), ((1, 4, 2), 5, "ab"), ((4, 1, 2), 2, "c"), ((3, 3, 3), 7, "abc")]
)
def test_pack_takes_as_few_hosts_as_can_be_and_the_last_ones_where_they_just_fit(
    free: Sequence[int], count: int, hosts: str
) -> None:
    spec = spec_of("abc", strategy="pack")
    places = [place_of(host, number) for host, number in zip("abc", free, strict=True)]
    assert sorted(set(place_nodes(spec, names(count), offers(spec, places)).values())) == list(hosts)


def test_pack_fills_hosts_that_have_nodes_first() -> None:
    spec = spec_of("ab", strategy="pack")
    places = [place_of("a", 4), place_of("b", 2, held("c000", uuid("b", 0)))]
    assert written(place_nodes(spec, names(2), offers(spec, places))) == "bb"
    assert written(place_nodes(spec, names(3), offers(spec, places))) == "bab"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_growing_moves_nothing_whatever_the_strategy_was(strategy: Strategy) -> None:
    before: dict[str, str] = {}
    for count in range(1, 10):
        spec = spec_of("abc", strategy=strategy, counts=(2, 4, 3))
        places = [
            place_of(host, size, *(held(node, uuid(host, n)) for n, node in enumerate(_on(before, host))))
            for host, size in {"a": 2, "b": 4, "c": 3}.items()
        ]
        after = place_nodes(spec, names(count), offers(spec, places))
        assert {node: after[node] for node in before} == before
        before = after


def _on(placed: Mapping[str, str], host: str) -> list[str]:
    return [node for node, home in placed.items() if home == host]


def test_nodes_of_a_host_that_is_away_stay_there_and_count() -> None:
    spec = spec_of("ab", strategy="fixed", counts=(2, 2))
    away = {"c000": "a", "c001": "a"}
    assert written(place_nodes(spec, names(4), offers(spec, [place_of("b", 4)]), away=away)) == "aabb"
    with pytest.raises(NoRoom, match="room for 0"):
        place_nodes(spec, names(1), [], away={})
    answering = offers(spec, [place_of("a", 4), place_of("b", 4)])
    assert place_nodes(spec, names(4), answering, away={"c003": "a"})["c003"] == "b", "a host that answers knows better"


def test_a_node_on_two_hosts_is_refused() -> None:
    spec = spec_of("ab")
    places = [place_of(host, 2, held("c000", uuid(host, 0))) for host in "ab"]
    with pytest.raises(UsageError, match="the node c000 exists on 2 hosts") as caught:
        place_nodes(spec, names(2), offers(spec, places))
    assert caught.value.evidence == "on a, b"


def test_what_each_host_lacks_is_told() -> None:
    spec = spec_of("abcde", per_node=2, memory_gib=8)
    places = [place_of("a", 4, *(held(f"x{n}", uuid("a", n)) for n in range(3))), place_of("b", 1)]
    silent = Claims(silent={"docker": HostNotReady("docker does not answer", evidence="no socket", fix="start it")})
    found = offers(spec, [*places, place_of("c", 4, claims=silent)])
    found += offers(spec, [place_of("d", 4)], room=Room(memory_bytes=8 * GIB))
    found += offers(spec, [place_of("e", 4)], room=Room(nodes=0, disk_bytes=NODE_ROOM_BYTES - 1))
    with pytest.raises(NoRoom) as caught:
        place_nodes(spec, names(3), found)
    error = caught.value
    assert "3 more nodes with 2 GPUs (exclusive) each: its hosts have room for 1" in error.what
    a, b, c, d, e = error.evidence.split("; ")
    assert a == "a: room for 0, 1 of 4 GPUs free"
    assert b == "b: it has 1 GPU, 2 are requested for each node"
    assert c.startswith("c: cannot tell which GPUs are free")
    assert d == "d: room for 1, 4 of 4 GPUs free, 8 GiB of memory left, 8 GiB for each node"
    assert "63 MiB of storage free, 64 MiB for each node" in e
    assert "kernel limits carry 0 more" in e
    assert "-n 1" in error.fix
    assert "add a host" in error.fix


def test_a_model_that_one_host_has_is_found_there() -> None:
    gpus = gpus_of("a")
    old = replace(gpus, gpus=tuple(replace(gpu, model="Tesla K80") for gpu in gpus.gpus))
    places = [replace(place_of("a", 4), gpus=old), place_of("b", 2)]
    spec = spec_of("ab", model=gpus.gpus[0].model[-4:])
    assert written(place_nodes(spec, names(2), offers(spec, places))) == "bb"
    with pytest.raises(NoRoom, match="room for 2") as caught:
        place_nodes(spec, names(3), offers(spec, places))
    assert "a model name that contains" in caught.value.evidence


def test_a_host_of_fixed_that_has_no_room_is_named_and_no_other() -> None:
    spec = spec_of("ab", strategy="fixed", counts=(2, 2))
    with pytest.raises(NoRoom) as caught:
        place_nodes(spec, names(4), offers(spec, [place_of("a", 4), place_of("b", 1)]))
    assert caught.value.evidence.startswith("b: room for 1")
    assert "hosts[].nodes" in caught.value.fix


def test_many_hosts_make_no_endless_error() -> None:
    spec = spec_of("a")
    with pytest.raises(NoRoom) as caught:
        place_nodes(spec, names(1), [Offer(host=f"h{number}", size=1) for number in range(1000)])
    assert caught.value.evidence.endswith("and 990 more hosts")


def test_who_waits_for_gpus_is_not_passed() -> None:
    waiting = LeaseRequest(node="a job", sharing="exclusive", count=3)
    gpus = gpus_of("a")
    new = LeaseRequest(node="c", sharing="exclusive", count=1)
    assert count_supply(gpus, (), new, claims=Claims(waiting=(waiting,)), most=9).nodes == 1
    assert count_supply(gpus, (), new, claims=Claims(), most=3).nodes == 3


def random_places(dice: random.Random, hosts: str) -> list[Place]:
    """Hosts of any size, some GPUs of which are held, by nodes of the cluster too."""
    places = []
    numbers = iter(dice.sample(range(20), 20))
    for host in hosts:
        count = dice.randint(0, 4)
        leases = []
        for index in range(count):
            if dice.random() < 0.4:
                node = node_name("c", next(numbers)) if dice.random() < 0.5 else f"x-{host}{index}"
                leases.append(held(node, uuid(host, index), sharing=dice.choice(SHARINGS)))
        places.append(place_of(host, count, *leases))
    return places


def grants(spec: ClusterSpec, place: Place, mine: Sequence[str]) -> list[Lease]:
    """The leases on a host once it has given its new nodes what they request: it must not refuse."""
    request = request_of_spec(spec, place.gpus, node=spec.name)
    given = allocate(place.gpus, place.leases, [replace(request, node=node) for node in mine], claims=place.claims)
    new = [held(node, *(unit.uuid for unit in units), sharing=request.sharing) for node, units in given.items()]
    return [*place.leases, *new]


@pytest.mark.slow
def test_any_plan_is_granted_by_each_host_and_gives_no_exclusive_gpu_twice_nor_is_over_a_room() -> None:
    dice = random.Random(11)
    granted = refused = 0
    for _ in range(PLANS):
        hosts = "abcd"[: dice.randint(1, 4)]
        places = random_places(dice, hosts)
        count, strategy = dice.randint(0, 12), dice.choice(STRATEGIES)
        quotas = [dice.randint(0, 6) for _ in hosts] if strategy == "fixed" else []
        spec = spec_of(
            hosts, strategy=strategy, per_node=dice.randint(0, 3), sharing=dice.choice(SHARINGS),
            memory_gib=dice.choice((None, 4)), counts=quotas,
        )  # fmt: skip
        room = Room(
            nodes=dice.choice((None, dice.randint(0, 4))),
            memory_bytes=dice.choice((None, dice.randint(0, 20) * GIB)),
            disk_bytes=dice.choice((None, dice.randint(0, 6) * NODE_ROOM_BYTES)),
        )
        offered = offers(spec, places, room=room, most=count)
        homes = {node: offer.host for offer in offered for node in offer.nodes}
        try:
            placed = place_nodes(spec, names(count), offered)
        except NoRoom:
            refused += 1
            continue
        assert list(placed) == names(count)
        assert {node: placed[node] for node in homes if node in placed} == {
            n: h for n, h in homes.items() if n in placed
        }
        for place in places:
            new = [node for node, host in placed.items() if host == place.host and node not in homes]
            granted += len(new)
            assert len(new) <= (room.nodes if room.nodes is not None else len(new))
            assert len(new) * NODE_ROOM_BYTES <= (room.disk_bytes if room.disk_bytes is not None else 1 << 60)
            memory = (spec.nodes.memory_gib or 0) * GIB
            assert len(new) * memory <= (room.memory_bytes if room.memory_bytes is not None else 1 << 60)
            leases = grants(spec, place, new)
            holders = Counter(gpu for lease in leases for gpu in lease.gpus)
            alone = {gpu for lease in leases if lease.sharing == "exclusive" for gpu in lease.gpus}
            assert {gpu for gpu in alone if holders[gpu] > 1} == set()
    assert granted > PLANS // 2
    assert refused > PLANS // 10


def test_exclusive_nodes_are_refused_only_where_all_hosts_together_have_too_few() -> None:
    dice = random.Random(12)
    for _ in range(1000):
        hosts, size = "abcd"[: dice.randint(1, 4)], dice.randint(1, 3)
        sizes = [dice.randint(0, 4) for _ in hosts]
        spec = spec_of(hosts, per_node=size, strategy=dice.choice(("spread", "pack")))
        found = offers(spec, [place_of(host, count) for host, count in zip(hosts, sizes, strict=True)])
        fitting = sum(count // size for count in sizes)
        assert len(place_nodes(spec, names(fitting), found)) == fitting
        with pytest.raises(NoRoom):
            place_nodes(spec, names(fitting + 1), found)


def test_pack_never_takes_more_hosts_than_needed() -> None:
    dice = random.Random(13)
    for _ in range(1000):
        capacities = [dice.randint(0, 5) for _ in range(dice.randint(1, 6))]
        total = dice.randint(0, sum(capacities))
        hosts = "abcdef"[: len(capacities)]
        found = [
            Offer(host=host, size=1, more=number, free=number) for host, number in zip(hosts, capacities, strict=True)
        ]
        placed = place_nodes(spec_of(hosts, strategy="pack"), names(total), found)
        needed = next(n for n in range(7) if sum(sorted(capacities, reverse=True)[:n]) >= total)
        assert len(set(placed.values())) == needed


def test_an_offer_is_read_back_and_nothing_else_is_taken_for_one() -> None:
    offer = Offer(host="a", nodes=("c000",), size=1, more=3, free=-2, gpus=4, room=Room(nodes=7), lack="none\n")
    assert read(Offer, write(offer)) == offer
    for told in ({}, {**write(offer), "more": "3"}, {**write(offer), "x": 1}):
        with pytest.raises(ValueError, match=r"Expected|Object"):
            read(Offer, told)
