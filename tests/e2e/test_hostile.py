"""Root in a node misbehaves in every way of a table: verbs end in their time, other nodes notice nothing, nodes go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.hostile import KINDS, HostileNode, Kind
from tests.e2e.places import PLACES, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Ledger
    from tests.e2e.conftest import Gpuprov

PLACE_OF = {"lxd": "hostile", "docker": "hostile_docker"}
TRIALS = [
    pytest.param(engine, kind, id=f"{engine}-{kind.name}", marks=() if kind.sample else pytest.mark.long)
    for engine in PLACE_OF
    for kind in KINDS
    if engine in kind.engines
]
ALL_AT_ONCE = "many kinds at once, when the cluster is taken down"


def test_the_table_has_forty_kinds_for_each_engine() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    for engine in PLACE_OF:
        assert sum(engine in kind.engines for kind in KINDS) >= 40


@pytest.fixture(scope="module")
def hostiles(gpuprov: Gpuprov, request: pytest.FixtureRequest) -> Iterator[dict[str, HostileNode]]:
    """A cluster of two nodes on each engine, the first one hostile; taken down by gpuprov itself, as it is then."""
    made: dict[str, HostileNode] = {}
    for engine, module in PLACE_OF.items():
        place = PLACES[module]
        if engine == "docker":
            request.getfixturevalue("docker")
        sweep(place)
        spec = gpuprov.folder / f"{place.cluster}.yaml"
        spec.write_text(place.spec(count=2, nodes="role: plain", engine=engine))
        gpuprov("cluster", "up", "-f", str(spec), "--no-verify")
        names = (place.node(0), place.node(1))
        made[engine] = HostileNode(
            gpuprov=gpuprov, engine=engine, cluster=place.cluster, node=names[0], other=names[1], spec=str(spec)
        )
        made[engine].become_root()
    yield made
    sweep(*(PLACES[module] for module in PLACE_OF.values()))


@pytest.mark.parametrize(("engine", "kind"), TRIALS)
def test_misbehaviour(hostiles: dict[str, HostileNode], ledger: Ledger, engine: str, kind: Kind) -> None:
    hostile = hostiles[engine]
    before = hostile.look_at_other()
    survived = False
    try:
        hostile.misbehave(kind)
        assert hostile.look_at_other() == before
        survived = True
    finally:
        ledger.add("hostile", engine=engine, misbehaviour=kind.name, survived=survived)


@pytest.mark.parametrize("engine", PLACE_OF)
def test_a_cluster_with_a_hostile_node_is_taken_down(
    hostiles: dict[str, HostileNode], ledger: Ledger, engine: str
) -> None:
    hostile = hostiles[engine]
    survived = False
    try:
        for kind in KINDS:
            if engine in kind.engines and kind.sample:
                hostile.in_node(kind.lines, timeout_s=5)  # where it writes into a FIFO of the kind before, it hangs
        hostile.gpuprov("cluster", "down", hostile.cluster, "--engine", engine)
        left = hostile.gpuprov.json("list", "--engine", engine)["nodes"]
        assert not [row["name"] for row in left if row["cluster"] == hostile.cluster]
        survived = True
    finally:
        ledger.add("hostile", engine=engine, misbehaviour=ALL_AT_ONCE, survived=survived)
